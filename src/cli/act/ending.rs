//! Waits for the end of a piece of work, and shows how it goes.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::work::{Piece, Work};
use crate::{
    cli::{CliError, trouble::Call},
    cluster::{ObjectKey, Person},
};

/// How long is waited if nobody says how long: what is stopped in an orderly way has ended by then.
pub(super) const USUAL_WAIT: &str = "10m";
/// How often the object is looked at. A person sees a change within a second, and the API server
/// answers one small request for it.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until this very object is over. Changes on the way go to standard error. `None`: it is not
/// over in time.
pub(super) async fn wait<K: Piece>(
    person: &Person,
    work: &Work,
    limit: Duration,
) -> Result<Option<Work>, CliError> {
    match timeout(limit, until_over::<K>(person, work)).await {
        Ok(over) => over.map(Some),
        Err(_) => Ok(None),
    }
}

async fn until_over<K: Piece>(person: &Person, work: &Work) -> Result<Work, CliError> {
    let call = Call::of::<K>("get", person);
    let key = ObjectKey::new(person.namespace(), &work.target.name);
    let mut shown = String::new();
    loop {
        match person.reader().get::<K>(&key).await {
            Ok(Some(seen)) if seen.work().uid == work.uid => {
                let now = seen.work();
                let line = now.recorded.to_string();
                if line != shown {
                    eprintln!("{line}");
                    shown = line;
                }
                if now.is_over() {
                    return Ok(now);
                }
            }
            Ok(_) => {
                return Err(CliError::Failed(format!(
                    "{} was deleted meanwhile; deletion is a cancel, and what ran is stopped",
                    work.target
                )));
            }
            // It may answer again within the time that the person gave.
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(call.failed(error)),
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        api::ReportJob,
        cluster::fake::{FakeApi, Fault},
    };

    const JOBS: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportjobs";

    fn scene(status: &Value) -> (FakeApi, Person, Work) {
        let fake = FakeApi::new();
        let mut object = serde_json::to_value(super::super::work::made::report(&json!({}), status));
        let stored = fake.put(JOBS, object.as_mut().unwrap().take());
        let work = serde_json::from_value::<ReportJob>(stored).unwrap().work();
        let person = Person::single(&fake.client(), "docs");
        (fake, person, work)
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_through_silence_until_the_end() {
        let (fake, person, work) = scene(&json!({"state": "Cancelled"}));
        fake.fault(Method::GET, "acme-1", Fault::LoseRequest);
        let over = wait::<ReportJob>(&person, &work, Duration::from_secs(60)).await.unwrap();
        assert_eq!(over.unwrap().recorded.state, "Cancelled");
        assert_eq!(fake.faults_left(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_when_the_time_is_over_or_the_object_is_another() {
        let (fake, person, work) = scene(&json!({"state": "Running"}));
        let limit = Duration::from_secs(3);
        assert_eq!(wait::<ReportJob>(&person, &work, limit).await.unwrap(), None);
        let other = Work { uid: "another".to_owned(), ..work.clone() };
        assert!(wait::<ReportJob>(&person, &other, limit).await.is_err());
        fake.remove(&format!("{JOBS}/acme-1"));
        let gone = wait::<ReportJob>(&person, &work, limit).await.unwrap_err();
        assert!(gone.to_string().contains("was deleted"), "{gone}");
    }
}
