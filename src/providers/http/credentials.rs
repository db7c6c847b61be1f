//! Credentials for services, from Secrets whose owner allowed that.
//!
//! Whoever may create a run chooses the address, and could have the operator hand a Secret to a
//! server of his own. So a Secret is used only if its annotation `punctual.dev/allowed-url` covers
//! the address.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::HeaderValue;
use k8s_openapi::api::core::v1::Secret;

use super::{CallError, address::BaseUrl, transport::Tls};
use crate::{
    api::{ANNOTATION_ALLOWED_URL, HttpRun},
    cluster::{ApiError, ObjectKey, Reader},
    time::{LeaseClock, LeaseInstant},
};

/// How long a Secret is used before it is read again: a running run is asked about every 2 s, and a
/// Secret that is replaced or withdrawn counts soon after.
const KEPT: Duration = Duration::from_secs(30);
/// Secrets that are kept at once, at a few kilobytes each. One that is forgotten is read again.
const MAX_KEPT: usize = 256;

/// What is shown to a service.
#[derive(Clone, Default)]
pub(super) struct Credentials {
    /// Value of the header `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// Own certificate, and whom to trust.
    pub(super) tls: Tls,
}

/// Reads Secrets and keeps them for a moment.
pub(super) struct Vault {
    reader: Reader,
    clock: LeaseClock,
    kept: Mutex<BTreeMap<ObjectKey, Kept>>,
}

#[derive(Clone)]
struct Kept {
    since: LeaseInstant,
    secret: Arc<Secret>,
}

impl Vault {
    pub(super) fn new(reader: Reader, clock: LeaseClock) -> Self {
        Self { reader, clock, kept: Mutex::default() }
    }

    /// The credentials of a run, if its address may see them.
    pub(super) async fn open(
        &self,
        namespace: &str,
        http: &HttpRun,
        url: &BaseUrl,
    ) -> Result<Credentials, CallError> {
        let Some(reference) = &http.credentials_secret_ref else {
            return Ok(Credentials::default());
        };
        let key = ObjectKey::new(namespace, &reference.name);
        let secret = self.secret(&key).await?;
        credentials(&key.name, &secret, url).map_err(CallError::Refused)
    }

    async fn secret(&self, key: &ObjectKey) -> Result<Arc<Secret>, CallError> {
        let now = self.clock.now();
        if let Some(kept) = self.lock().get(key)
            && now.since(kept.since) < KEPT
        {
            return Ok(Arc::clone(&kept.secret));
        }
        let name = &key.name;
        let no = |why: String| CallError::NoAnswer(why);
        let read = self.reader.get::<Secret>(key).await.map_err(|error| match error {
            ApiError::Forbidden { .. } => no(format!(
                "run.http.credentialsSecretRef: the operator may not read Secret {name}; add its \
                 name to httpProvider.credentialsSecrets of the chart"
            )),
            error => no(format!("run.http.credentialsSecretRef: Secret {name}: {error}")),
        })?;
        let secret = Arc::new(read.ok_or_else(|| {
            no(format!(
                "run.http.credentialsSecretRef: there is no Secret {name} in this namespace; create \
                 it, or leave the field out"
            ))
        })?);
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            kept.pop_first();
        }
        kept.insert(key.clone(), Kept { since: now, secret: Arc::clone(&secret) });
        Ok(secret)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Kept>> {
        // Every change is one insertion or removal.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is in a Secret for a service at `url`; the sentence says what is wrong with it. No sentence
/// repeats anything that is in the Secret's data.
fn credentials(name: &str, secret: &Secret, url: &BaseUrl) -> Result<Credentials, String> {
    let of = format!("run.http.credentialsSecretRef: Secret {name}");
    let annotations = secret.metadata.annotations.as_ref();
    let Some(allowed) = annotations.and_then(|all| all.get(ANNOTATION_ALLOWED_URL)) else {
        return Err(format!(
            "{of} may not be used: it has no annotation {ANNOTATION_ALLOWED_URL}; set it to the \
             beginning of the addresses that may see it"
        ));
    };
    let allowed = BaseUrl::parse(&format!("{of}: {ANNOTATION_ALLOWED_URL}"), allowed)?;
    if !allowed.covers(url) {
        return Err(format!(
            "{of} may not be used for this url: its annotation {ANNOTATION_ALLOWED_URL} names \
             another beginning"
        ));
    }
    let part = |key: &str| secret.data.as_ref()?.get(key).map(|bytes| bytes.0.clone());
    let authorization = part("token").map(|token| bearer(&of, &token)).transpose()?;
    let tls = Tls { authority: part("ca.crt"), identity: None };
    let tls = match (part("tls.crt"), part("tls.key")) {
        (Some(certificate), Some(key)) => Tls { identity: Some((certificate, key)), ..tls },
        (None, None) => tls,
        _ => return Err(format!("{of} needs both tls.crt and tls.key, or neither")),
    };
    if authorization.is_none() && tls == Tls::default() {
        return Err(format!("{of} has none of token, tls.crt with tls.key, and ca.crt"));
    }
    Ok(Credentials { authorization, tls })
}

fn bearer(of: &str, token: &[u8]) -> Result<HeaderValue, String> {
    let bad = || format!("{of}: its token must be one line of visible ASCII characters");
    let token = std::str::from_utf8(token).map_err(|_| bad())?.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(bad());
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn open(secret: serde_json::Value, url: &str) -> Result<Credentials, String> {
        let secret: Secret = serde_json::from_value(secret).unwrap();
        credentials("runner", &secret, &BaseUrl::parse("run.http.url", url).unwrap())
    }

    #[test]
    fn a_secret_is_used_only_where_its_owner_allowed_it() {
        let allowed = |url: &str| {
            json!({
                "metadata": {"annotations": {"punctual.dev/allowed-url": url}},
                "data": {"token": "c2VjcmV0Cg=="},
            })
        };
        let here = "https://runner.example/v1";
        let credentials = open(allowed(here), here).unwrap();
        let authorization = credentials.authorization.unwrap();
        assert_eq!(authorization.to_str().unwrap(), "Bearer secret");
        assert!(authorization.is_sensitive());
        for (secret, url, part) in [
            (
                json!({"data": {"token": "c2VjcmV0"}}),
                here,
                "has no annotation punctual.dev/allowed-url",
            ),
            (allowed("https://runner.example"), "https://runner.example.net", "another beginning"),
            (allowed(here), "http://runner.example/v1", "another beginning"),
            (allowed("runner"), here, "allowed-url \"runner\""),
        ] {
            let error = open(secret, url).err().unwrap();
            assert!(error.contains(part) && error.contains("Secret runner"), "{error}");
            assert!(!error.contains("c2Vj") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn keys_come_in_pairs_and_tokens_in_one_line() {
        let with = |data: serde_json::Value| {
            let annotations = json!({"punctual.dev/allowed-url": "https://a"});
            open(json!({"metadata": {"annotations": annotations}, "data": data}), "https://a")
        };
        let both = with(json!({"tls.crt": "YQ==", "tls.key": "Yg==", "ca.crt": "Yw=="})).unwrap();
        assert_eq!(both.tls.identity, Some((b"a".to_vec(), b"b".to_vec())));
        assert_eq!(both.tls.authority, Some(b"c".to_vec()));
        assert!(with(json!({"ca.crt": "Yw=="})).is_ok(), "whom to trust, and nothing to show");
        for (data, part) in [
            (json!({"tls.crt": "YQ=="}), "both tls.crt and tls.key"),
            (json!({"tls.key": "YQ=="}), "both tls.crt and tls.key"),
            (json!({"password": "YQ=="}), "none of token"),
            (json!({"token": "YQpi"}), "one line"),
            (json!({"token": ""}), "one line"),
            (json!({"token": "gA=="}), "one line"),
        ] {
            let error = with(data).err().unwrap();
            assert!(error.contains(part), "{error}");
        }
    }
}
