//! Live reads.

use std::time::Duration;

use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::ListParams,
    core::{ClusterResourceScope, DeserializeGuard, ObjectList},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{ApiError, Object, ObjectKey};

/// Deadline of a GET.
pub(super) const GET_TIMEOUT: Duration = Duration::from_secs(5);
/// Deadline of one page of a list: a page of large objects takes the API server longer than a GET.
pub(super) const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Objects a page, the size client-go uses: keeps single answers below a few megabytes.
pub(super) const PAGE_SIZE: u32 = 500;
/// Most pages of one list: 1,000,000 objects, more than etcd holds of these kinds.
const MAX_PAGES: usize = 2000;
/// How often a list starts again because its continue token expired (tokens live 5 minutes).
const MAX_RESTARTS: usize = 2;

/// An object in a list that is not what its kind promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which one.
    pub key: ObjectKey,
    /// What is wrong with it.
    pub error: String,
}

/// What a list gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<K> {
    /// The objects.
    pub items: Vec<K>,
    /// Those that could not be read; they must not stop the others.
    pub unreadable: Vec<Unreadable>,
}

/// Reads live from the API server, each call with a deadline.
#[derive(Clone)]
pub struct Reader {
    client: Client,
}

impl Reader {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The object as it is now (a quorum read), or `None`.
    pub async fn get<K: Object>(&self, key: &ObjectKey) -> Result<Option<K>, ApiError> {
        get(&Api::namespaced(self.client.clone(), &key.namespace), &key.name).await
    }

    /// A cluster-scoped object as it is now, or `None`.
    pub async fn get_cluster<K>(&self, name: &str) -> Result<Option<K>, ApiError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned,
        K: std::fmt::Debug,
    {
        get(&Api::all(self.client.clone()), name).await
    }

    /// All objects of a kind, in one namespace or (`None`) in all, that match the label selector.
    pub async fn list<K: Object>(
        &self,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Result<Listed<K>, ApiError> {
        let mut params = ListParams::default().limit(PAGE_SIZE);
        params.label_selector = labels.map(ToOwned::to_owned);
        self.list_with(namespace, params).await
    }

    /// All objects of a kind in a namespace that match the field selector.
    pub async fn list_fields<K: Object>(
        &self,
        namespace: &str,
        fields: &str,
    ) -> Result<Listed<K>, ApiError> {
        self.list_where(Some(namespace), fields).await
    }

    /// All objects of a kind, in one namespace or (`None`) in all, that match the field selector.
    pub async fn list_where<K: Object>(
        &self,
        namespace: Option<&str>,
        fields: &str,
    ) -> Result<Listed<K>, ApiError> {
        self.list_with(namespace, ListParams::default().limit(PAGE_SIZE).fields(fields)).await
    }

    /// All objects of a kind, in one namespace or (`None`) in all, that match the field selector, page
    /// by page, for lists that need not be kept. `take` is told of each page whether the list begins
    /// (again, if its continue token expired: what was taken before counts no more), the objects, and
    /// how many are about to come.
    pub async fn pages<K: Object>(
        &self,
        namespace: Option<&str>,
        fields: &str,
        mut take: impl FnMut(bool, Listed<K>, i64),
    ) -> Result<(), ApiError> {
        let api = self.api(namespace);
        let mut last = ApiError::Gone;
        for _ in 0..=MAX_RESTARTS {
            let params = ListParams::default().limit(PAGE_SIZE).fields(fields);
            let mut first = true;
            let outcome = each_page(&api, params, |page, rest| {
                take(std::mem::take(&mut first), page, rest);
            });
            match outcome.await {
                Err(ApiError::Gone) => last = ApiError::Gone,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    fn api<K: Object>(&self, namespace: Option<&str>) -> Api<DeserializeGuard<K>> {
        match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    async fn list_with<K: Object>(
        &self,
        namespace: Option<&str>,
        params: ListParams,
    ) -> Result<Listed<K>, ApiError> {
        let api = self.api(namespace);
        let mut last = ApiError::Gone;
        for _ in 0..=MAX_RESTARTS {
            match pages(&api, params.clone()).await {
                Err(ApiError::Gone) => last = ApiError::Gone,
                outcome => return outcome,
            }
        }
        Err(last)
    }
}

/// One GET with its deadline.
pub(super) async fn get<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApiError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match timeout(GET_TIMEOUT, api.get(name)).await {
        Err(_) => Err(ApiError::deadline()),
        Ok(Ok(object)) => Ok(Some(object)),
        Ok(Err(error)) => match ApiError::from(error) {
            ApiError::NotFound => Ok(None),
            error => Err(error),
        },
    }
}

async fn pages<K: Object>(
    api: &Api<DeserializeGuard<K>>,
    params: ListParams,
) -> Result<Listed<K>, ApiError> {
    let mut listed = Listed { items: Vec::new(), unreadable: Vec::new() };
    let keep = |mut page: Listed<K>, _| {
        listed.items.append(&mut page.items);
        listed.unreadable.append(&mut page.unreadable);
    };
    each_page(api, params, keep).await?;
    Ok(listed)
}

/// Gives every page, and how many objects are about to come after it.
async fn each_page<K: Object>(
    api: &Api<DeserializeGuard<K>>,
    mut params: ListParams,
    mut take: impl FnMut(Listed<K>, i64),
) -> Result<(), ApiError> {
    for _ in 0..MAX_PAGES {
        let page: ObjectList<DeserializeGuard<K>> = timeout(PAGE_TIMEOUT, api.list(&params))
            .await
            .map_err(|_| ApiError::deadline())?
            .map_err(ApiError::from)?;
        let mut listed = Listed { items: Vec::new(), unreadable: Vec::new() };
        for DeserializeGuard(object) in page.items {
            match object {
                Ok(mut object) => {
                    object.managed_fields_mut().clear();
                    listed.items.push(object);
                }
                Err(invalid) => listed.unreadable.push(Unreadable {
                    key: ObjectKey::of(&invalid.metadata),
                    error: crate::api::truncate(&invalid.error, crate::api::MAX_MESSAGE_CHARS),
                }),
            }
        }
        take(listed, page.metadata.remaining_item_count.unwrap_or(0));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(()),
        }
    }
    Err(ApiError::Invalid { message: format!("a list has more than {MAX_PAGES} pages") })
}
