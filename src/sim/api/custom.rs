//! A kind whose CRD is installed.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{
    place::Place,
    refusal::{Cause, Refusal},
    request::Subresource,
    schema::Schema,
    validate,
};
use crate::{
    api::{GROUP, VERSION},
    sim::{Key, Kind},
};

/// Most CRDs that are remembered: those of this program, and some that tests have changed.
const MAX_READ: usize = 16;

/// CRDs that were read before, with what they say: every history installs the same ones, and to compile
/// their patterns takes longer than the rest of its beginning.
static READ: Mutex<Vec<(Value, Kind, Arc<Custom>)>> = Mutex::new(Vec::new());

/// What a CRD says about its kind, read once.
#[derive(Debug)]
pub(super) struct Custom {
    schema: Schema,
    /// Whether status is a subresource.
    pub(super) has_status: bool,
    /// Fields that can be selected by, for example `.spec.scheduleName`.
    pub(super) selectable: Vec<String>,
}

impl Custom {
    /// Reads a CRD. `None` if it is not about a kind of the model, or does not serve it.
    pub(super) fn read(crd: &Value) -> Result<Option<(Kind, Arc<Self>)>, String> {
        let spec = &crd["spec"];
        if spec["group"] != GROUP {
            return Ok(None);
        }
        // One push or one look: a panic elsewhere leaves it whole.
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kind, custom)) = read.iter().find(|(known, ..)| known == spec) {
            return Ok(Some((*kind, Arc::clone(custom))));
        }
        let Some((kind, custom)) = Self::parse(spec)? else { return Ok(None) };
        let custom = Arc::new(custom);
        if read.len() < MAX_READ {
            read.push((spec.clone(), kind, Arc::clone(&custom)));
        }
        Ok(Some((kind, custom)))
    }

    fn parse(spec: &Value) -> Result<Option<(Kind, Self)>, String> {
        let kind = Kind::ALL.into_iter().find(|kind| spec["names"]["kind"] == kind.name());
        let versions = spec["versions"].as_array().into_iter().flatten();
        let version = versions
            .into_iter()
            .find(|version| version["name"] == VERSION && version["served"] == true);
        let (Some(kind), Some(version)) = (kind, version) else { return Ok(None) };
        let schema = Schema::parse(&version["schema"]["openAPIV3Schema"], kind.name())?;
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        let selectable = selectable.filter_map(|field| field["jsonPath"].as_str());
        let custom = Self {
            schema,
            has_status: version["subresources"].get("status").is_some(),
            selectable: selectable.map(ToOwned::to_owned).collect(),
        };
        Ok(Some((kind, custom)))
    }

    /// Fills in defaults and drops what the schema does not know; metadata are another's business.
    /// Gives the paths of what was dropped.
    pub(super) fn normalise(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        let Some(fields) = object.as_object_mut() else { return dropped };
        let own = ["apiVersion", "kind", "metadata"].map(|name| (name, fields.remove(name)));
        self.schema.prune(object, &Place::Root, &mut dropped);
        self.schema.fill(object);
        for (name, value) in own {
            if let Some(value) = value {
                object[name] = value;
            }
        }
        dropped
    }

    /// Why an object is refused, in place of `old` or as a new one.
    pub(super) fn check(
        &self,
        key: &Key,
        part: Subresource,
        new: &Value,
        old: Option<&Value>,
        mut causes: Vec<Cause>,
    ) -> Result<(), Refusal> {
        validate::check(&self.schema, new, old, &mut causes);
        if part == Subresource::Status {
            causes.iter_mut().for_each(told_by_the_status);
        }
        if causes.is_empty() { Ok(()) } else { Err(Refusal::invalid(key, causes)) }
    }
}

/// The status has a validator of its own, in whose sentences places begin below it.
fn told_by_the_status(cause: &mut Cause) {
    if let Some(below) = cause.field.strip_prefix("status.") {
        let (whole, below) = (format!("{} in body", cause.field), format!("{below} in body"));
        cause.message = cause.message.replace(&whole, &below);
    }
}
