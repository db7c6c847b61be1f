//! What an HTTP request asks for.

use http::{Method, Uri};
use serde_json::json;

use super::{
    refusal::{Cause, Refusal},
    request::Subresource,
    write::not_served,
};
use crate::sim::{Key, Kind};

/// A request as far as path and query say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) kind: Kind,
    /// Empty: all, or the kind has none.
    pub(super) namespace: String,
    /// Empty: the collection.
    pub(super) name: String,
    pub(super) part: Subresource,
    pub(super) query: Query,
}

/// The parameters of a request, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter; empty if it is absent.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), "true" | "1")
    }

    /// A whole number; none if it is absent or zero.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        match self.get(name) {
            "" | "0" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Refusal::bad_request(format!("{name}: Invalid value: {text:?}: not a number"))
            }),
        }
    }

    /// Whether everything is to be checked and nothing stored. `options` is what the server calls
    /// the options of the request.
    pub(super) fn dry_run(&self, options: &str) -> Result<bool, Refusal> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let cause = Cause::unsupported("dryRun", &json!([other]), &["All".into()]);
                Err(Refusal::invalid_options(options, cause))
            }
        }
    }
}

/// Decodes `%xx` and `+`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => {
                if let Some(byte) = hex(*high).zip(hex(*low)) {
                    bytes.push(byte.0 * 16 + byte.1);
                    rest = after;
                } else {
                    bytes.push(b'%');
                }
            }
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

impl Call {
    /// Reads method, path and query.
    pub(super) fn parse(method: &Method, uri: &Uri) -> Result<Self, Refusal> {
        let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(not_served()),
        };
        let (namespace, rest) = match rest {
            // The namespace itself, or its status.
            ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status"] => ("", rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, part) = match rest {
            [plural] => (*plural, "", Subresource::Main),
            [plural, name] => (*plural, *name, Subresource::Main),
            [plural, name, "status"] => (*plural, *name, Subresource::Status),
            _ => return Err(not_served()),
        };
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| (kind.group(), kind.version(), kind.plural()) == (group, version, plural));
        let kind = kind.ok_or_else(not_served)?;
        if kind.namespaced() && namespace.is_empty() && !name.is_empty() {
            return Err(not_served());
        }
        Ok(Self {
            method: method.clone(),
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            part,
            query: Query::parse(uri.query().unwrap_or_default()),
        })
    }

    /// The object that it is about.
    pub(super) fn key(&self) -> Key {
        Key::new(self.kind, &self.namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(uri: &str) -> Result<Call, Refusal> {
        Call::parse(&Method::GET, &uri.parse().unwrap())
    }

    #[test]
    fn paths_are_read() {
        let job = call("/apis/batch/v1/namespaces/docs/jobs/a?dryRun=All").unwrap();
        assert_eq!((job.kind, job.namespace.as_str(), job.name.as_str()), (Kind::Job, "docs", "a"));
        assert_eq!(job.query.dry_run("CreateOptions"), Ok(true));
        let status = "/apis/punctual.dev/v1alpha1/namespaces/x/maintenanceschedules/a/status";
        assert_eq!(call(status).unwrap().part, Subresource::Status);
        let namespace = call("/api/v1/namespaces/docs").unwrap();
        assert_eq!(namespace.key(), Key::new(Kind::Namespace, "", "docs"));
        let pods = call("/api/v1/pods?&labelSelector=a%20in%20%28b%2Cc%29&limit=5").unwrap();
        assert_eq!((pods.kind, pods.namespace.as_str()), (Kind::Pod, ""));
        assert_eq!(pods.query.get("labelSelector"), "a in (b,c)");
        assert_eq!(pods.query.number("limit"), Ok(Some(5)));
        for nowhere in [
            "/",
            "/api/v1/jobs",
            "/apis/batch/v1beta1/namespaces/x/jobs",
            "/apis/batch/v1/jobs/a",
            "/apis/batch/v1/namespaces/x/jobs/a/log",
        ] {
            assert_eq!(call(nowhere).unwrap_err().code, 404, "{nowhere}");
        }
        assert_eq!(
            call("/api/v1/pods?dryRun=Some").unwrap().query.dry_run("x").unwrap_err().code,
            422
        );
    }
}
