//! The hand of the command line: it acts with the rights of the person who runs it.
//!
//! A person's commands ask for things by `spec`; they write no status and carry no fence, so they
//! need no permit.

use kube::{Api, api::PostParams};
use tokio::time::timeout;

use super::{ApiError, Clients, Created, FIELD_MANAGER, LeaseApi, Object, ObjectKey, Reader};

/// How long a person waits for an answer to a write.
const WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);
/// How long a person waits for the Lease.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// The cluster as a person sees it.
#[derive(Clone)]
pub struct Person {
    clients: Clients,
    namespace: String,
}

impl Person {
    /// Connects as kubectl does. `context` names another context than the current one.
    pub async fn connect(context: Option<&str>, namespace: Option<&str>) -> Result<Self, ApiError> {
        let config = Clients::configuration(context).await?;
        let namespace =
            namespace.map_or_else(|| config.default_namespace.clone(), ToOwned::to_owned);
        Ok(Self { clients: Clients::new(&config, WRITE_TIMEOUT)?, namespace })
    }

    /// The namespace in force: the one given, else the context's.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Live reads.
    pub fn reader(&self) -> Reader {
        self.clients.reader()
    }

    /// The Lease with this key, to be read.
    pub fn lease(&self, key: ObjectKey) -> LeaseApi {
        self.clients.lease(key, READ_TIMEOUT)
    }

    /// Creates an object; one of that name that exists is given back instead.
    pub async fn create<K: Object>(&self, object: &K) -> Result<Created<K>, ApiError> {
        let key = ObjectKey::of(object.meta());
        let api: Api<K> = Api::namespaced(self.clients.work(), &key.namespace);
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        match timeout(WRITE_TIMEOUT, api.create(&params, object)).await {
            Ok(Ok(created)) => Ok(Created::New(created)),
            Ok(Err(error)) => match ApiError::from(error) {
                ApiError::AlreadyExists => match self.reader().get(&key).await? {
                    Some(existing) => Ok(Created::Existing(existing)),
                    None => Err(ApiError::NotFound),
                },
                error => Err(error),
            },
            Err(_) => Err(ApiError::deadline()),
        }
    }
}
