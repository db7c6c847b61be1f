//! The hand of the command line: it acts with the rights of the person who runs it.
//!
//! A person's commands ask for things by `spec`; they write no status and carry no fence, so they
//! need no permit. Every write carries a precondition: the name of what is created, uid and
//! resourceVersion of what is changed or deleted. Nothing is sent twice by itself.

use futures::AsyncBufRead;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, LogParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    ApiError, Clients, Created, Deletion, FIELD_MANAGER, LeaseApi, Object, ObjectKey, Reader,
    reader::{self, GET_TIMEOUT},
    writer::merge,
};
use crate::api::{GROUP, VERSION};

/// How long a person waits for an answer to a write.
const WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);
/// How long a person waits for the Lease.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The cluster as a person sees it.
#[derive(Clone)]
pub struct Person {
    clients: Clients,
    /// For answers that go on for as long as a run does: nothing ends them but the server.
    patient: Client,
    namespace: String,
    server: String,
}

impl Person {
    /// Connects as kubectl does. `context` names another context than the current one.
    pub async fn connect(context: Option<&str>, namespace: Option<&str>) -> Result<Self, ApiError> {
        let config = Clients::configuration(context).await?;
        let namespace =
            namespace.map_or_else(|| config.default_namespace.clone(), ToOwned::to_owned);
        Ok(Self {
            clients: Clients::new(&config, WRITE_TIMEOUT)?,
            patient: Clients::patient(&config)?,
            namespace,
            server: config.cluster_url.to_string(),
        })
    }

    /// A person in front of the API server that `client` reaches.
    #[cfg(test)]
    pub(crate) fn single(client: &Client, namespace: &str) -> Self {
        Self {
            clients: Clients::single(client.clone()),
            patient: client.clone(),
            namespace: namespace.to_owned(),
            server: "https://api.example/".to_owned(),
        }
    }

    /// The namespace in force: the one given, else the context's.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Live reads.
    pub fn reader(&self) -> Reader {
        self.clients.reader()
    }

    /// The Lease with this key, to be read.
    pub fn lease(&self, key: ObjectKey) -> LeaseApi {
        self.clients.lease(key, READ_TIMEOUT)
    }

    /// Whether the cluster knows the kinds of this program.
    pub async fn knows_the_kinds(&self) -> Result<bool, ApiError> {
        let group = format!("{GROUP}/{VERSION}");
        let client = self.clients.work();
        match timeout(GET_TIMEOUT, client.list_api_group_resources(&group)).await {
            Err(_) => Err(ApiError::deadline()),
            Ok(Ok(_)) => Ok(true),
            Ok(Err(error)) => match ApiError::from(error) {
                ApiError::NotFound => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Creates an object; one of that name that exists is given back instead.
    pub async fn create<K: Object>(&self, object: &K) -> Result<Created<K>, ApiError> {
        match self.post(object, false).await {
            Ok(created) => Ok(Created::New(created)),
            Err(ApiError::AlreadyExists) => {
                match self.reader().get(&ObjectKey::of(object.meta())).await? {
                    Some(existing) => Ok(Created::Existing(existing)),
                    None => Err(ApiError::NotFound),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Asks whether the API server would create the object, without creating it. One of that name
    /// that exists is no refusal: the server looks for it after everything else.
    pub async fn would_create<K: Object>(&self, object: &K) -> Result<(), ApiError> {
        match self.post(object, true).await {
            Ok(_) | Err(ApiError::AlreadyExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn post<K: Object>(&self, object: &K, dry_run: bool) -> Result<K, ApiError> {
        let api = self.api::<K>(&ObjectKey::of(object.meta()));
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        answer(timeout(WRITE_TIMEOUT, api.create(&params, object)).await)
    }

    /// Applies a JSON merge patch to exactly the version that was read.
    pub async fn change<K: Object>(&self, read: &K, mut patch: Value) -> Result<K, ApiError> {
        let (uid, version) = version(read)?;
        merge(&mut patch, &json!({"metadata": {"uid": uid, "resourceVersion": version}}));
        let key = ObjectKey::of(read.meta());
        let api = self.api::<K>(&key);
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(&patch);
        answer(timeout(WRITE_TIMEOUT, api.patch(&key.name, &params, &patch)).await)
    }

    /// Deletes exactly the version that was read. After an unknown outcome the object is looked at.
    pub async fn delete<K: Object>(&self, read: &K) -> Result<Deletion, ApiError> {
        let (uid, version) = version(read)?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.clone()),
                resource_version: Some(version),
            }),
            ..DeleteParams::background()
        };
        let key = ObjectKey::of(read.meta());
        let api = self.api::<K>(&key);
        let error = match answer(timeout(WRITE_TIMEOUT, api.delete(&key.name, &params)).await) {
            // With finalizers the object stays for a while, and is the answer.
            Ok(answer) if answer.is_left() => return Ok(Deletion::Accepted),
            Ok(_) | Err(ApiError::NotFound) => return Ok(Deletion::Gone),
            Err(error) if error.is_outcome_unknown() => error,
            Err(error) => return Err(error),
        };
        let Ok(seen) = reader::get(&api, &key.name).await else { return Err(error) };
        match seen.filter(|seen: &K| seen.meta().uid.as_deref() == Some(&uid)) {
            None => Ok(Deletion::Gone),
            Some(seen) if seen.meta().deletion_timestamp.is_some() => Ok(Deletion::Accepted),
            Some(_) => Err(error),
        }
    }

    /// What a container wrote, as it comes.
    pub async fn logs(
        &self,
        pod: &ObjectKey,
        wanted: &LogParams,
    ) -> Result<impl AsyncBufRead + use<>, ApiError> {
        let api: Api<Pod> = Api::namespaced(self.patient.clone(), &pod.namespace);
        answer(timeout(WRITE_TIMEOUT, api.log_stream(&pod.name, wanted)).await)
    }

    fn api<K: Object>(&self, key: &ObjectKey) -> Api<K> {
        Api::namespaced(self.clients.work(), &key.namespace)
    }
}

/// The answer of a call with a deadline.
fn answer<T>(
    waited: Result<Result<T, kube::Error>, tokio::time::error::Elapsed>,
) -> Result<T, ApiError> {
    match waited {
        Err(_) => Err(ApiError::deadline()),
        Ok(answered) => answered.map_err(ApiError::from),
    }
}

/// Uid and resourceVersion of what was read: the precondition of a write.
fn version<K: Object>(read: &K) -> Result<(String, String), ApiError> {
    let meta = read.meta();
    match (&meta.uid, &meta.resource_version) {
        (Some(uid), Some(version)) => Ok((uid.clone(), version.clone())),
        _ => Err(ApiError::Unsendable {
            message: "the object was never read: it has no uid or resourceVersion".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::{
        api::ReportJob,
        cluster::fake::{FakeApi, Fault},
    };

    const JOBS: &str = "/apis/punctual.dev/v1alpha1/namespaces/shop/reportjobs";

    async fn scene() -> (FakeApi, Person, ReportJob) {
        let fake = FakeApi::new();
        fake.put(
            JOBS,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
                "metadata": {"name": "a"}, "spec": {"queueName": "q", "tenant": "acme"},
            }),
        );
        let person = Person::single(&fake.client(), "shop");
        let read = person.reader().get(&ObjectKey::new("shop", "a")).await.unwrap().unwrap();
        (fake, person, read)
    }

    #[tokio::test]
    async fn a_change_is_refused_if_somebody_else_was_first() {
        let (_fake, person, read) = scene().await;
        let wish = json!({"spec": {"cancel": true}});
        let changed = person.change(&read, wish.clone()).await.unwrap();
        assert!(changed.spec.cancel);
        let late = person.change(&read, wish).await;
        assert!(matches!(late, Err(ApiError::Conflict { .. })), "{late:?}");
    }

    #[tokio::test]
    async fn a_change_carries_uid_and_version() {
        let (fake, person, read) = scene().await;
        person.change(&read, json!({"spec": {"cancel": true}})).await.unwrap();
        let sent = fake.log().into_iter().find(|entry| entry.method == Method::PATCH).unwrap();
        let meta = read.metadata;
        assert_eq!(sent.body["metadata"]["uid"], meta.uid.unwrap());
        assert_eq!(sent.body["metadata"]["resourceVersion"], meta.resource_version.unwrap());
    }

    #[tokio::test]
    async fn only_the_version_that_was_read_is_deleted() {
        let (fake, person, read) = scene().await;
        person.change(&read, json!({"spec": {"cancel": true}})).await.unwrap();
        let late = person.delete(&read).await;
        assert!(matches!(late, Err(ApiError::Conflict { .. })), "{late:?}");
        let now = person.reader().get(&ObjectKey::new("shop", "a")).await.unwrap().unwrap();
        let now: ReportJob = now;
        // The answer is lost; a look tells.
        fake.fault(Method::DELETE, "reportjobs", Fault::LoseResponse);
        assert_eq!(person.delete(&now).await, Ok(Deletion::Gone));
        assert!(fake.stored(&format!("{JOBS}/a")).is_none());
        // The request is lost: nothing was deleted, and that is said.
        let (fake, person, read) = scene().await;
        fake.fault(Method::DELETE, "reportjobs", Fault::LoseRequest);
        assert!(person.delete(&read).await.unwrap_err().is_outcome_unknown());
        assert!(fake.stored(&format!("{JOBS}/a")).is_some());
    }

    #[tokio::test]
    async fn an_object_that_was_never_read_is_not_written() {
        let (fake, person, mut read) = scene().await;
        read.metadata.uid = None;
        let change = person.change(&read, json!({"spec": {"cancel": true}})).await;
        assert!(matches!(change, Err(ApiError::Unsendable { .. })));
        assert!(matches!(person.delete(&read).await, Err(ApiError::Unsendable { .. })));
        assert!(fake.log().iter().all(|entry| entry.method == Method::GET));
    }
}
