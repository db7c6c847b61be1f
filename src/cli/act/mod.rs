//! The commands by which a person acts on the cluster.
//!
//! Each reads an object, decides on that version alone (a pure function), and writes with a
//! precondition on the very version. If somebody was quicker, it reads and decides anew.

use serde_json::Value;

use super::{CliError, target, trouble::Call};
use crate::cluster::{ApiError, Object, Person, kind_of};

pub mod cancel;
mod ending;
pub mod pause;
pub mod resolve;
pub mod resubmit;
pub(super) mod work;

/// How often a change is tried when the object changes all the time: the operator writes an object
/// a few times a second at most, and one try takes less.
const MAX_TRIES: usize = 8;

/// What a command does about one version of an object.
#[derive(Debug, PartialEq)]
enum Decision<A> {
    /// Nothing; there is only something to say.
    Say(A),
    /// This merge patch, and then something to say.
    Write(Value, A),
}

/// Reads, decides and writes until a decision and its version meet.
async fn act<K: Object, A>(
    person: &Person,
    name: &str,
    decide: impl Fn(&K) -> Result<Decision<A>, CliError>,
) -> Result<A, CliError> {
    let call = Call::of::<K>("patch", person);
    let mut unsure = false;
    for _ in 0..MAX_TRIES {
        let seen: K = target::read(person, name).await?;
        let (patch, answer) = match decide(&seen)? {
            Decision::Say(answer) => return Ok(answer),
            Decision::Write(patch, answer) => (patch, answer),
        };
        match person.change(&seen, patch).await {
            Ok(_) => return Ok(answer),
            Err(ApiError::Conflict { .. }) => {}
            // It may have been written: the next look tells.
            Err(error) if error.is_outcome_unknown() && !unsure => unsure = true,
            Err(error) => return Err(call.failed(error)),
        }
    }
    Err(CliError::Failed(format!(
        "{} {name:?} changed {MAX_TRIES} times while it was being written; run the command again",
        kind_of::<K>()
    )))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::{
        api::ReportQueue,
        cluster::fake::{FakeApi, Fault},
    };

    const QUEUES: &str = "/apis/punctual.dev/v1alpha1/namespaces/shop/reportqueues";

    fn scene() -> (FakeApi, Person) {
        let fake = FakeApi::new();
        fake.put(
            QUEUES,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportQueue",
                "metadata": {"name": "q"}, "spec": {"slots": 1},
            }),
        );
        let person = Person::single(&fake.client(), "shop");
        (fake, person)
    }

    /// Wants 2 slots; says whether it wrote.
    async fn two_slots(person: &Person) -> Result<bool, CliError> {
        act(person, "q", |queue: &ReportQueue| {
            Ok(match queue.spec.slots {
                2 => Decision::Say(false),
                _ => Decision::Write(json!({"spec": {"slots": 2}}), true),
            })
        })
        .await
    }

    #[tokio::test]
    async fn a_conflict_is_decided_anew_and_not_for_ever() {
        let (fake, person) = scene();
        fake.fault(Method::PATCH, "reportqueues", Fault::Refuse(409, "Conflict"));
        assert!(two_slots(&person).await.unwrap());
        assert!(!two_slots(&person).await.unwrap(), "it is so already");
        let (fake, person) = scene();
        for _ in 0..MAX_TRIES {
            fake.fault(Method::PATCH, "reportqueues", Fault::Refuse(409, "Conflict"));
        }
        let error = two_slots(&person).await.unwrap_err().to_string();
        assert!(error.contains("run the command again"), "{error}");
        assert_eq!(fake.faults_left(), 0);
    }

    #[tokio::test]
    async fn after_an_unknown_outcome_it_looks_before_it_writes_again() {
        let (fake, person) = scene();
        fake.fault(Method::PATCH, "reportqueues", Fault::LoseResponse);
        assert!(!two_slots(&person).await.unwrap(), "the look shows that it was written");
        let patches = fake.log().iter().filter(|one| one.method == Method::PATCH).count();
        assert_eq!(patches, 1);
        let (fake, person) = scene();
        fake.fault(Method::PATCH, "reportqueues", Fault::LoseRequest);
        fake.fault(Method::PATCH, "reportqueues", Fault::LoseRequest);
        let error = two_slots(&person).await.unwrap_err().to_string();
        assert!(error.contains("no answer from the cluster"), "{error}");
    }
}
