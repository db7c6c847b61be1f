//! What a request is about, read from its line alone.

use http::{Method, Request};

use crate::sim::{Key, Kind};

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// One object.
    Get,
    /// Many.
    List,
    /// What changes from now on.
    Watch,
    /// A new object.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

impl Action {
    /// As people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Whether it changes something.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete)
    }
}

/// One request of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the replica that sent it.
    pub replica: usize,
    /// What it wants.
    pub action: Action,
    /// About which object; its name is empty for a list, a watch and a creation.
    pub key: Key,
    /// The subresource, or empty.
    pub subresource: String,
    /// Whether it only asks what would happen.
    pub dry_run: bool,
}

impl Call {
    /// Reads a request; `None` for one about no kind of the model.
    pub fn of<B>(replica: usize, request: &Request<B>) -> Option<Self> {
        let parts: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", "v1", rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, rest) = rest.split_first()?;
        let kind =
            Kind::ALL.into_iter().find(|kind| kind.group() == group && kind.plural() == *plural)?;
        let name = rest.first().copied().unwrap_or_default();
        let subresource = (*rest.get(1).unwrap_or(&"")).to_owned();
        let query = request.uri().query().unwrap_or_default();
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        let action = match *request.method() {
            Method::GET if has("watch") => Action::Watch,
            Method::GET if name.is_empty() => Action::List,
            Method::GET => Action::Get,
            Method::POST => Action::Create,
            Method::PUT => Action::Update,
            Method::PATCH => Action::Patch,
            Method::DELETE => Action::Delete,
            _ => return None,
        };
        let key = Key::new(kind, namespace, name);
        Some(Self { replica, action, key, subresource, dry_run: has("dryRun") })
    }

    /// Whether it changes something if it succeeds.
    pub fn is_write(&self) -> bool {
        self.action.is_write() && !self.dry_run
    }

    /// Whether it is about work: neither the Lease nor an event, which come and go by themselves.
    pub fn is_work(&self) -> bool {
        !matches!(self.key.kind, Kind::Lease | Kind::Event)
    }

    /// Kind of the request, the unit in which faults are counted: `update mocc/status`.
    pub fn sort(&self) -> String {
        let dry_run = if self.dry_run { " (dry run)" } else { "" };
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let (action, kind) = (self.action.as_str(), self.key.kind.short());
        format!("{action} {kind}{slash}{}{dry_run}", self.subresource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str) -> Option<Call> {
        Call::of(1, &Request::builder().method(method).uri(uri).body(()).unwrap())
    }

    #[test]
    fn requests_are_read_from_their_line() {
        let occurrences = "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceoccurrences";
        for (method, uri, sort, key) in [
            ("GET", "/api/v1/nodes/n1", "get node", "node/n1"),
            ("GET", "/api/v1/pods?labelSelector=a", "list pod", "pod/"),
            ("GET", "/api/v1/namespaces/docs/pods?watch=true", "watch pod", "docs/pod/"),
            ("POST", occurrences, "create mocc", "docs/mocc/"),
            ("POST", &format!("{occurrences}?dryRun=All"), "create mocc (dry run)", "docs/mocc/"),
            ("PUT", &format!("{occurrences}/x/status?"), "update mocc/status", "docs/mocc/x"),
            ("PATCH", "/apis/batch/v1/namespaces/docs/jobs/j", "patch job", "docs/job/j"),
            ("DELETE", &format!("{occurrences}/x"), "delete mocc", "docs/mocc/x"),
            ("GET", "/api/v1/namespaces/docs", "get ns", "ns/docs"),
        ] {
            let read = call(method, uri).unwrap();
            assert_eq!((read.sort().as_str(), read.key.to_string().as_str()), (sort, key), "{uri}");
            assert_eq!(read.is_write(), method != "GET" && !uri.contains("dryRun"), "{uri}");
        }
        assert_eq!(call("GET", "/version"), None);
        assert_eq!(call("GET", "/apis/apps/v1/deployments"), None);
    }

    #[test]
    fn the_lease_and_events_are_no_work() {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/punctual";
        let event = "/apis/events.k8s.io/v1/namespaces/ops/events";
        assert!(!call("PUT", lease).unwrap().is_work());
        assert!(!call("POST", event).unwrap().is_work());
        assert!(call("PATCH", "/apis/batch/v1/namespaces/docs/jobs/j").unwrap().is_work());
    }
}
