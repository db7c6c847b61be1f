//! Creating, replacing and patching, with the checks and in the order of the real server.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    custom::Custom,
    kinds,
    merge::merge,
    meta,
    refusal::{Cause, Refusal},
    request::{Request, Subresource},
    store::{RESOURCE_VERSION, Store, Stored, Writer},
};
use crate::sim::{Key, Kind};

/// What a write came to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It is new.
    Created(Stored),
    /// It changed, or was already as wanted.
    Updated(Stored),
    /// It is to go, but stays for now.
    Deleting(Stored),
    /// It is gone; its last version.
    Deleted(Stored),
}

impl Outcome {
    pub(super) fn stored(&self) -> &Stored {
        match self {
            Self::Created(stored)
            | Self::Updated(stored)
            | Self::Deleting(stored)
            | Self::Deleted(stored) => stored,
        }
    }
}

/// One PUT or PATCH on its way.
pub(super) struct Change<'a> {
    pub(super) key: &'a Key,
    pub(super) part: Subresource,
    pub(super) dry_run: bool,
    /// Whether it was computed from the stored version.
    pub(super) patched: bool,
}

impl Store {
    /// Carries out one write.
    pub(super) fn carry_out(
        &mut self,
        writer: &Writer,
        request: Request,
    ) -> Result<Outcome, Refusal> {
        match request {
            Request::Create { kind, namespace, object, dry_run } => {
                self.create(writer, kind, &namespace, object, dry_run)
            }
            Request::Update { key, subresource, object, dry_run } => {
                let change = Change { key: &key, part: subresource, dry_run, patched: false };
                self.update(writer, &change, object)
            }
            Request::Patch { key, subresource, patch, dry_run } => {
                let change = Change { key: &key, part: subresource, dry_run, patched: true };
                self.patch(writer, &change, patch)
            }
            Request::Delete { key, how, dry_run } => self.delete(writer, &key, &how, dry_run),
        }
    }

    /// The CRD of a kind that has one; a kind whose CRD is missing is not served at all.
    pub(super) fn served(&self, kind: Kind) -> Result<Option<Arc<Custom>>, Refusal> {
        if !kinds::is_custom(kind) {
            return Ok(None);
        }
        let custom = self.customs.get(&kind).map(Arc::clone);
        custom.map(Some).ok_or_else(not_served)
    }

    /// Whether a kind has a status of its own to write.
    pub(super) fn serves(&self, kind: Kind, part: Subresource) -> Result<(), Refusal> {
        let custom = self.served(kind)?;
        let has_status = custom.map_or(kinds::has_status(kind), |custom| custom.has_status);
        if part == Subresource::Status && !has_status {
            let why = "the server could not find the requested resource";
            return Err(Refusal::new(404, "NotFound", why));
        }
        Ok(())
    }

    fn create(
        &mut self,
        writer: &Writer,
        kind: Kind,
        namespace: &str,
        object: Value,
        dry_run: bool,
    ) -> Result<Outcome, Refusal> {
        let custom = self.served(kind)?;
        let mut object = decode(kind, custom.as_deref(), object)?;
        let key = meta::key_of_new(kind, namespace, &mut object, &self.next_uid())?;
        self.takes_new(&key)?;
        let given = object["metadata"][RESOURCE_VERSION].as_str().unwrap_or_default();
        if !given.is_empty() && given != "0" {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::new(500, "", why));
        }
        self.complete(writer, &key, custom.as_deref(), &mut object);
        self.store_new(writer, &key, custom.as_deref(), object, dry_run)
    }

    /// Gives a new object what the server gives it.
    pub(super) fn complete(
        &self,
        writer: &Writer,
        key: &Key,
        custom: Option<&Custom>,
        object: &mut Value,
    ) {
        let uid = self.next_uid();
        meta::begin(key, object, &uid, writer.now);
        if custom.is_some_and(|custom| custom.has_status)
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        kinds::prepare(key.kind, object, &uid);
    }

    /// Checks and stores an object that is complete.
    pub(super) fn store_new(
        &mut self,
        writer: &Writer,
        key: &Key,
        custom: Option<&Custom>,
        object: Value,
        dry_run: bool,
    ) -> Result<Outcome, Refusal> {
        check(key, custom, Subresource::Main, &object, None, meta::check(key))?;
        if let Some(found) = self.get(key) {
            let going = found.object["metadata"]["deletionTimestamp"].is_string();
            let refuse = if going { Refusal::still_deleting } else { Refusal::already_exists };
            return Err(refuse(key));
        }
        let crd = read_crd(key, &object)?;
        if dry_run {
            return Ok(Outcome::Created(Self::unstored(object)));
        }
        self.use_uid();
        self.customs.extend(crd);
        Ok(Outcome::Created(self.put(writer, key, Subresource::Main, object)))
    }

    /// Whether the namespace of a new object exists and stays.
    fn takes_new(&self, key: &Key) -> Result<(), Refusal> {
        if !key.kind.namespaced() {
            return Ok(());
        }
        let namespace = Key::new(Kind::Namespace, "", &key.namespace);
        match self.get(&namespace) {
            None => Err(Refusal::not_found(&namespace)),
            Some(found) if found.object["status"]["phase"] == "Terminating" => {
                Err(Refusal::terminating(key))
            }
            Some(_) => Ok(()),
        }
    }

    fn update(
        &mut self,
        writer: &Writer,
        change: &Change<'_>,
        body: Value,
    ) -> Result<Outcome, Refusal> {
        let Change { key, part, dry_run, patched } = *change;
        self.serves(key.kind, part)?;
        let custom = self.served(key.kind)?;
        let body = decode(key.kind, custom.as_deref(), body)?;
        meta::same_name(key, &body)?;
        let Some(old) = self.get(key).map(Arc::clone) else {
            return self.update_missing(writer, change, body);
        };
        meta::preconditions(key, &body, &old.object, patched)?;
        let new = assemble(key, part, custom.as_deref(), body, &old.object);
        let causes = meta::check_change(&new, &old.object);
        check(key, custom.as_deref(), part, &new, Some(&old.object), causes)?;
        if new == *old.object {
            return Ok(Outcome::Updated(old));
        }
        let crd = read_crd(key, &new)?;
        if dry_run {
            return Ok(Outcome::Updated(Self::unstored(new)));
        }
        if meta::may_go(&new["metadata"]) {
            self.remove(writer, key, part);
            return Ok(Outcome::Updated(Self::unstored(new)));
        }
        if key.kind == Kind::CustomResourceDefinition {
            self.replace_crd(&old.object, crd);
        }
        Ok(Outcome::Updated(self.put(writer, key, part, new)))
    }

    fn replace_crd(&mut self, old: &Value, new: Option<(Kind, Arc<Custom>)>) {
        if let Ok(Some((kind, _))) = Custom::read(old) {
            self.customs.remove(&kind);
        }
        self.customs.extend(new);
    }

    /// A PUT of an object that is not there. Of a Lease it creates one, unless it names a uid: that
    /// is a precondition which nothing meets.
    fn update_missing(
        &mut self,
        writer: &Writer,
        change: &Change<'_>,
        mut body: Value,
    ) -> Result<Outcome, Refusal> {
        let key = change.key;
        if key.kind != Kind::Lease || change.patched {
            return Err(Refusal::not_found(key));
        }
        let uid = body["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() {
            return Err(Refusal::precondition(key, "UID", uid, ""));
        }
        self.takes_new(key)?;
        let given = body["metadata"].get(RESOURCE_VERSION).cloned();
        self.complete(writer, key, None, &mut body);
        if let Some(given) = given.filter(|_| change.dry_run) {
            body["metadata"][RESOURCE_VERSION] = given; // shown as it was sent
        }
        self.store_new(writer, key, None, body, change.dry_run)
    }

    fn patch(
        &mut self,
        writer: &Writer,
        change: &Change<'_>,
        patch: Value,
    ) -> Result<Outcome, Refusal> {
        self.serves(change.key.kind, change.part)?;
        let Some(old) = self.get(change.key) else { return Err(Refusal::not_found(change.key)) };
        let mut body = (*old.object).clone();
        merge(&mut body, patch);
        self.update(writer, change, body)
    }
}

/// What a CRD defines, if the object is one.
fn read_crd(key: &Key, object: &Value) -> Result<Option<(Kind, Arc<Custom>)>, Refusal> {
    if key.kind != Kind::CustomResourceDefinition {
        return Ok(None);
    }
    match Custom::read(object) {
        Ok(read) => Ok(read),
        Err(why) => {
            let cause = Cause::of("FieldValueInvalid", "spec.versions", why);
            Err(Refusal::invalid(key, vec![cause]))
        }
    }
}

/// The answer, as plain text, to a path that leads nowhere.
pub(super) const NOT_SERVED: &str = "404 page not found";

/// 404 of a path that leads nowhere.
pub(super) fn not_served() -> Refusal {
    Refusal::new(404, "NotFound", NOT_SERVED)
}

/// Reads an object: what is unknown is dropped, what is absent filled in.
pub(super) fn decode(kind: Kind, custom: Option<&Custom>, object: Value) -> Result<Value, Refusal> {
    if !object.is_object() {
        return Err(Refusal::bad_request("the object provided is unrecognized (not an object)"));
    }
    let mut object = kinds::decode(kind, object)?;
    if let Some(custom) = custom {
        custom.normalise(&mut object);
    }
    meta::normalise(&mut object);
    Ok(object)
}

/// The new version: from the body what the part may change, the rest from the old one.
fn assemble(
    key: &Key,
    part: Subresource,
    custom: Option<&Custom>,
    mut body: Value,
    old: &Value,
) -> Value {
    let has_status = custom.map_or(kinds::has_status(key.kind), |custom| custom.has_status);
    let mut new = match part {
        Subresource::Status if custom.is_some() => {
            let mut new = old.clone();
            carry(&mut new, "status", body.get_mut("status").map(Value::take));
            return new;
        }
        Subresource::Status => {
            carry(&mut body, "spec", old.get("spec").cloned());
            body
        }
        Subresource::Main => {
            if has_status {
                carry(&mut body, "status", old.get("status").cloned());
            }
            body
        }
    };
    meta::carry_over(key, &mut new, old);
    if part == Subresource::Main && kinds::has_generation(key.kind) && differ(&new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation + 1);
    }
    new
}

/// Sets a field, or takes it away.
fn carry(object: &mut Value, name: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

/// Whether two versions differ in more than metadata and status.
fn differ(new: &Value, old: &Value) -> bool {
    let count = |object: &Value| {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(name, _)| is_wanted(name)).count()
    };
    let fields = new.as_object().into_iter().flatten();
    let mut fields = fields.filter(|(name, _)| is_wanted(name));
    count(new) != count(old) || fields.any(|(name, value)| old.get(name) != Some(value))
}

fn is_wanted(name: &str) -> bool {
    name != "metadata" && name != "status"
}

/// Refuses what its kind does not allow.
fn check(
    key: &Key,
    custom: Option<&Custom>,
    part: Subresource,
    new: &Value,
    old: Option<&Value>,
    mut causes: Vec<Cause>,
) -> Result<(), Refusal> {
    if let Some(custom) = custom {
        return custom.check(key, part, new, old, causes);
    }
    causes.extend(kinds::check(key.kind, part, new, old));
    if causes.is_empty() { Ok(()) } else { Err(Refusal::invalid(key, causes)) }
}
