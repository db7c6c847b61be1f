//! What the room demands of a kind, and how objects are named and ordered.

use std::{borrow::Cow, fmt, marker::PhantomData};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A namespaced kind that can be read and written.
pub trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// The name of a kind, for metrics and logs.
pub(crate) fn kind_of<K: Resource<DynamicType = ()>>() -> &'static str {
    match K::kind(&()) {
        Cow::Borrowed(kind) => kind,
        // Kinds whose type is known have a constant name.
        Cow::Owned(_) => "unknown",
    }
}

/// Namespace and name: what an object is called among its kind. Cluster-scoped objects have an
/// empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        )
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The `resourceVersion` as an integer, which Kubernetes promises to be comparable within a
/// cluster; `None` if absent or not a number.
pub fn resource_version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}

/// An object of kind `K` whose content stays raw JSON, so that fields that this program's types do
/// not know survive.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Raw<K> {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Everything else, `apiVersion` and `kind` included.
    #[serde(flatten)]
    pub content: Map<String, Value>,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource<DynamicType = ()>> Raw<K> {
    /// An object with the given content beside its metadata, for example `{"spec": {…}}`.
    pub fn new(metadata: ObjectMeta, mut content: Map<String, Value>) -> Self {
        content.insert("apiVersion".to_owned(), K::api_version(&()).into_owned().into());
        content.insert("kind".to_owned(), K::kind(&()).into_owned().into());
        content.remove("metadata");
        Self { metadata, content, kind: PhantomData }
    }
}

impl<K> Clone for Raw<K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), content: self.content.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Raw<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw")
            .field("metadata", &self.metadata)
            .field("content", &self.content)
            .finish()
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Raw<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_of_a_raw_object_survive() {
        let Value::Object(content) = json!({"spec": {"fieldOfTomorrow": 1}}) else {
            unreachable!("the literal is an object")
        };
        let metadata = ObjectMeta { name: Some("a".into()), ..ObjectMeta::default() };
        let text = serde_json::to_string(&Raw::<Job>::new(metadata, content)).unwrap();
        let back: Raw<Job> = serde_json::from_str(&text).unwrap();
        assert_eq!(back.content["spec"]["fieldOfTomorrow"], json!(1));
        assert_eq!(back.content["kind"], json!("Job"));
        assert_eq!(back.content["apiVersion"], json!("batch/v1"));
        assert_eq!(back.metadata.name.as_deref(), Some("a"));
        assert!(!back.content.contains_key("metadata"));
        assert_eq!(Raw::<Job>::plural(&()), "jobs");
    }

    #[test]
    fn resource_versions_are_numbers() {
        let with = |text: &str| ObjectMeta {
            resource_version: Some(text.to_owned()),
            ..ObjectMeta::default()
        };
        assert!(resource_version(&with("9")) < resource_version(&with("10")));
        assert_eq!(resource_version(&with("abc")), None);
        assert_eq!(resource_version(&ObjectMeta::default()), None);
    }
}
