//! Requests about the one Lease, on its own connection.
//!
//! They go past `kube::Api`, because the answer's `Date` header is wanted: it is the API server's
//! clock, with which the own one is compared.

use std::{future::Future, pin::pin, time::Duration};

use futures::TryStreamExt as _;
use http::{Request, header};
use jiff::{Timestamp, fmt::rfc2822};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Resource as _,
    api::{PostParams, WatchEvent, WatchParams},
    client::Body,
    core::{Status, request},
};
use tokio::time::timeout;

use super::{
    ApiError, FIELD_MANAGER, ObjectKey,
    client::{WATCH_SECONDS, WatchPause},
};

/// A Lease as the API server answered it.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The object.
    pub lease: Lease,
    /// The server's clock, in whole seconds, if the answer says.
    pub server_time: Option<Timestamp>,
}

/// Requests about one Lease, each with the attempt timeout as its deadline and without retries.
#[derive(Clone)]
pub struct LeaseApi {
    lease: Client,
    watch: Client,
    key: ObjectKey,
    attempt: Duration,
}

impl LeaseApi {
    pub(super) fn new(lease: Client, watch: Client, key: ObjectKey, attempt: Duration) -> Self {
        Self { lease, watch, key, attempt }
    }

    /// Namespace and name of the Lease.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The Lease as it is now, or `None`.
    pub async fn get(&self) -> Result<Option<Answered>, ApiError> {
        match self.send(self.request().get(&self.key.name, &kube::api::GetParams::default())).await
        {
            Err(ApiError::NotFound) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Creates the Lease.
    pub(crate) async fn create(&self, lease: &Lease) -> Result<Answered, ApiError> {
        let body = bytes(lease)?;
        self.send(self.request().create(&params(), body)).await
    }

    /// Replaces exactly the version, of exactly the object, that `lease` names.
    pub(crate) async fn replace(&self, lease: &Lease) -> Result<Answered, ApiError> {
        let meta = &lease.metadata;
        if meta.uid.is_none() || meta.resource_version.is_none() {
            return Err(ApiError::Unsendable {
                message: "a Lease is never replaced without uid and resourceVersion".to_owned(),
            });
        }
        let body = bytes(lease)?;
        self.send(self.request().replace(&self.key.name, &params(), body)).await
    }

    fn request(&self) -> request::Request {
        request::Request::new(Lease::url_path(&(), Some(&self.key.namespace)))
    }

    fn send(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
    ) -> impl Future<Output = Result<Answered, ApiError>> + Send {
        let client = self.lease.clone();
        let attempt = self.attempt;
        async move {
            let request = request.map_err(kube::Error::BuildRequest)?;
            let exchange = exchange(&client, request.map(Body::from));
            timeout(attempt, exchange).await.map_err(|_| ApiError::deadline())?
        }
    }

    /// Watches the Lease from `version` on and tells of every change, until the future is dropped. It
    /// is only a hint: decisions are made from reads. A watch that broke is taken up again at the
    /// version that `version` gives then.
    pub async fn hints(&self, version: impl Fn() -> Option<String>, mut tell: impl FnMut()) {
        let api: Api<Lease> = Api::namespaced(self.watch.clone(), &self.key.namespace);
        let fields = format!("metadata.name={}", self.key.name);
        let params = WatchParams::default().fields(&fields).timeout(WATCH_SECONDS);
        let mut pause = WatchPause::of::<Lease>();
        loop {
            let Some(mut from) = version() else {
                pause.wait().await; // nothing was read yet
                continue;
            };
            match follow(&api, &params, &mut from, &mut tell).await {
                Ok(()) => pause = WatchPause::of::<Lease>(),
                Err(error) => {
                    tracing::debug!(%error, "watch of the Lease broke; reads go on");
                    pause.wait().await;
                }
            }
        }
    }
}

/// One watch, to its end.
async fn follow(
    api: &Api<Lease>,
    params: &WatchParams,
    from: &mut String,
    tell: &mut impl FnMut(),
) -> Result<(), ApiError> {
    loop {
        let mut events = pin!(api.watch(params, from).await?);
        while let Some(event) = events.try_next().await? {
            let lease = match event {
                WatchEvent::Added(lease)
                | WatchEvent::Modified(lease)
                | WatchEvent::Deleted(lease) => lease,
                WatchEvent::Bookmark(mark) => {
                    *from = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => return Err(ApiError::of_status(&status)),
            };
            tell();
            if let Some(version) = lease.metadata.resource_version {
                *from = version;
            }
        }
    }
}

fn params() -> PostParams {
    PostParams { dry_run: false, field_manager: Some(FIELD_MANAGER.to_owned()) }
}

fn bytes(lease: &Lease) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(lease).map_err(|error| ApiError::Unsendable { message: error.to_string() })
}

async fn exchange(client: &Client, request: Request<Body>) -> Result<Answered, ApiError> {
    let response = client.send(request).await?;
    let code = response.status();
    let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    let server_time = date.and_then(parse_date);
    let body = response.into_body().collect_bytes().await?;
    if !code.is_success() {
        let status = serde_json::from_slice(&body).unwrap_or_else(|_| {
            Status::failure(&String::from_utf8_lossy(&body), "").with_code(code.as_u16())
        });
        return Err(ApiError::of_status(&status));
    }
    let lease = serde_json::from_slice(&body)
        .map_err(|error| ApiError::Malformed { message: error.to_string() })?;
    Ok(Answered { lease, server_time })
}

/// An HTTP date (RFC 9110, the preferred form), for example `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_date(text: &str) -> Option<Timestamp> {
    static PARSER: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::{
        cluster::{
            Clients,
            fake::{FakeApi, Fault},
        },
        time::WallClock,
    };

    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";

    fn api(fake: &FakeApi) -> LeaseApi {
        let key = ObjectKey::new("ops", "punctual");
        Clients::single(fake.client()).lease(key, Duration::from_millis(1400))
    }

    fn new_lease(fake: &FakeApi) -> Lease {
        let body = json!({"metadata": {"name": "punctual"}, "spec": {"holderIdentity": "a"}});
        serde_json::from_value(fake.put(LEASES, body)).unwrap()
    }

    #[test]
    fn http_dates_are_read() {
        let at = parse_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(at.to_string(), "1994-11-06T08:49:37Z");
        assert_eq!(parse_date("yesterday"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_bring_the_servers_clock() {
        let fake = FakeApi::new();
        let wall = WallClock::driven("2026-01-01T00:00:07.9Z".parse().unwrap());
        fake.show_date(&wall);
        assert!(api(&fake).get().await.unwrap().is_none());
        let lease = new_lease(&fake);
        let read = api(&fake).get().await.unwrap().unwrap();
        assert_eq!(read.server_time, Some("2026-01-01T00:00:07Z".parse().unwrap()));
        let written = api(&fake).replace(&lease).await.unwrap();
        assert!(written.server_time.is_some());
        assert_eq!(written.lease.metadata.uid, lease.metadata.uid);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replace_needs_version_and_object_and_ends_at_its_deadline() {
        let fake = FakeApi::new();
        let lease = new_lease(&fake);
        for strip in [(|lease: &mut Lease| lease.metadata.uid = None) as fn(&mut Lease), |lease| {
            lease.metadata.resource_version = None;
        }] {
            let mut bare = lease.clone();
            strip(&mut bare);
            let refused = api(&fake).replace(&bare).await.unwrap_err();
            assert_eq!(refused.category(), "unsendable");
        }
        assert!(fake.log().is_empty());
        fake.fault(Method::PUT, "leases", Fault::LandLater(Duration::from_secs(60)));
        let start = tokio::time::Instant::now();
        let unknown = api(&fake).replace(&lease).await.unwrap_err();
        assert!(unknown.is_outcome_unknown());
        assert_eq!(start.elapsed(), Duration::from_millis(1400));
        fake.edit(&format!("{LEASES}/punctual"), |_| {});
        let conflict = api(&fake).replace(&lease).await.unwrap_err();
        assert_eq!(conflict.category(), "conflict");
        fake.remove(&format!("{LEASES}/punctual"));
        let gone = api(&fake).replace(&lease).await.unwrap_err();
        assert_eq!(gone.category(), "conflict", "a deleted Lease is not created by a replace");
    }

    #[tokio::test(start_paused = true)]
    async fn the_watch_hints_at_every_change() {
        let fake = FakeApi::new();
        let lease = new_lease(&fake);
        let hints = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&hints);
        let (api, from) = (api(&fake), lease.metadata.resource_version);
        let task = tokio::spawn(async move {
            let tell = || {
                told.fetch_add(1, Ordering::Relaxed);
            };
            api.hints(|| from.clone(), tell).await;
        });
        let path = format!("{LEASES}/punctual");
        for holder in ["a", "b", ""] {
            fake.edit(&path, |lease| lease["spec"]["holderIdentity"] = json!(holder));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fake.remove(&path);
        tokio::time::sleep(Duration::from_millis(10)).await;
        task.abort();
        assert_eq!(hints.load(Ordering::Relaxed), 4, "three edits and the deletion");
    }
}
