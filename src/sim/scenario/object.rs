//! What scenario files name: kinds, objects and manifests.

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use serde_json::Value;

use super::read::{At, Read, meant};
use crate::{
    api,
    sim::{Key, Kind},
    yaml::{Content, Node, Place},
};

/// The namespace of names without one.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Whether objects of a kind run something, so that their runs can be counted.
pub(super) fn has_runs(kind: Kind) -> bool {
    matches!(kind, Kind::MaintenanceOccurrence | Kind::ReportJob)
}

/// The short names of all kinds.
fn shorts() -> impl Iterator<Item = &'static str> + Clone {
    Kind::ALL.into_iter().map(Kind::short)
}

fn api_version(kind: Kind) -> String {
    let (group, version) = (kind.group(), kind.version());
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The kind that a file names by its `kind`, plural or short name.
pub(super) fn read_kind(at: &At<'_>) -> Read<Kind> {
    kind_of(at, at.text()?)
}

fn kind_of(at: &At<'_>, text: &str) -> Read<Kind> {
    Kind::named(text).ok_or_else(|| {
        at.fault(format!("{text:?} is no kind of object; {}", meant(text, shorts())))
    })
}

/// An object that a file names: `mocc/nightly-202611290200`, `other/mocc/x`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for kinds that have none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.namespaced() { namespace } else { "" };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Its key in the model.
    pub fn key(&self) -> Key {
        Key { kind: self.kind, namespace: self.namespace.clone(), name: self.name.clone() }
    }

    pub(super) fn read(at: &At<'_>) -> Read<Self> {
        let text = at.text()?;
        let parts: Vec<&str> = text.split('/').collect();
        let (namespace, kind, name) = match parts[..] {
            [kind, name] => (DEFAULT_NAMESPACE, kind, name),
            [namespace, kind, name] => (namespace, kind, name),
            _ => {
                let how = "must name an object like mocc/nightly-202611290200, or with its \
                           namespace other/mocc/x";
                return Err(at.fault(format!("{how}, not {text:?}")));
            }
        };
        let kind = kind_of(at, kind)?;
        if name.is_empty() || namespace.is_empty() {
            return Err(at.fault(format!("{text:?} has an empty part; write kind/name")));
        }
        Ok(Self::new(kind, namespace, name))
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() && self.namespace != DEFAULT_NAMESPACE {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}/{}", self.kind.short(), self.name)
    }
}

/// An object as a file describes it.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Where it stands in the file.
    pub place: Place,
    /// Which object it is.
    pub object: ObjectRef,
    /// The whole manifest, its namespace filled in.
    pub value: Value,
}

impl Manifest {
    pub(super) fn read(at: &At<'_>) -> Read<Self> {
        let mut fields = at.fields()?;
        let kind_at = fields.need("kind", "for example MaintenanceSchedule")?;
        let text = kind_at.text()?;
        let kind = Kind::named(text).filter(|kind| kind.name() == text);
        let kind = kind.ok_or_else(|| {
            let known = Kind::ALL.into_iter().map(Kind::name);
            kind_at.fault(format!("{text:?} is no kind that is simulated; {}", meant(text, known)))
        })?;
        let version = fields.need("apiVersion", &format!("write {}", api_version(kind)))?;
        if version.text()? != api_version(kind) {
            let expected = api_version(kind);
            return Err(version.fault(format!("must be {expected} for a {}", kind.name())));
        }
        let metadata = fields.need("metadata", "it holds the name")?;
        let mut names = metadata.fields()?;
        let name = names.need("name", "every object of a scenario has a name of its own")?;
        let name = name.text()?;
        let namespace = match names.get("namespace") {
            Some(at) if !kind.namespaced() => {
                return Err(at.fault(format!("a {} has no namespace; remove it", kind.name())));
            }
            Some(at) => at.text()?,
            None => DEFAULT_NAMESPACE,
        };
        known_fields(at, kind)?;
        let object = ObjectRef::new(kind, namespace, name);
        let mut value = at.node.to_value();
        if kind.namespaced() {
            value["metadata"]["namespace"] = object.namespace.clone().into();
        }
        Ok(Self { place: at.place(), object, value })
    }
}

/// Fields of `metadata` that a manifest may have.
const METADATA: [&str; 11] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Refuses fields that the schema of one of our kinds does not know, as kubectl does: the API
/// server would drop them without a word.
fn known_fields(at: &At<'_>, kind: Kind) -> Read<()> {
    let Some(schema) = schemas().get(kind.name()) else { return Ok(()) };
    for entry in at.entries()? {
        let field = At::new(&entry.value, format!("{}.{}", at.field, entry.key));
        match entry.key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let entries = field.entries()?;
                let unknown = entries.iter().find(|e| !METADATA.contains(&e.key.as_str()));
                if let Some(entry) = unknown {
                    let what = meant(&entry.key, METADATA.into_iter());
                    let at = At::new(&entry.value, format!("{}.{}", field.field, entry.key));
                    return Err(at.fault(format!("is no field of metadata; {what}")));
                }
            }
            part => {
                let Some(schema) = schema["properties"].get(part) else {
                    let what = ["metadata", "spec", "status"].into_iter();
                    return Err(field.fault(format!("is no field; {}", meant(part, what))));
                };
                known(&field, schema)?;
            }
        }
    }
    Ok(())
}

/// Refuses the first field below `at` that the schema does not know.
fn known(at: &At<'_>, schema: &Value) -> Read<()> {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return Ok(());
    }
    match &at.node.content {
        Content::Scalar(_) => Ok(()),
        Content::List(items) => {
            let item = |(index, node): (usize, _)| At::new(node, format!("{}[{index}]", at.field));
            items.iter().enumerate().try_for_each(|pair| known(&item(pair), &schema["items"]))
        }
        Content::Map(entries) => {
            for entry in entries {
                let field = At::new(&entry.value, format!("{}.{}", at.field, entry.key));
                let properties = schema["properties"].as_object();
                let inner = properties.and_then(|known| known.get(&entry.key));
                let any = Some(&schema["additionalProperties"]).filter(|any| any.is_object());
                match (inner.or(any), properties) {
                    (Some(inner), _) => known(&field, inner)?,
                    (None, None) => {}
                    (None, Some(names)) => {
                        let what = meant(&entry.key, names.keys().map(String::as_str));
                        return Err(field.fault(format!("is no field of the kind; {what}")));
                    }
                }
            }
            Ok(())
        }
    }
}

/// The schemas of our kinds, by kind.
fn schemas() -> &'static BTreeMap<String, Value> {
    static SCHEMAS: OnceLock<BTreeMap<String, Value>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let schema = |crd| {
            let crd: Value = serde_json::to_value(crd).expect("a definition is JSON");
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
            (kind, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
        };
        api::crds().iter().map(schema).collect()
    })
}

/// A merge patch, as it stands in the file.
pub(super) fn merge_patch(at: &At<'_>) -> Read<Value> {
    at.entries()?;
    Ok(Node::to_value(at.node))
}
