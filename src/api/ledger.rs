//! `ReportQueue.status.ledger`: the transaction by which report jobs are admitted.
//!
//! Everything that an admission decides by is in this one object, so one conditional write is the
//! whole decision, and a leader that knows nothing but the ledger and the waiting jobs decides as
//! its predecessor would have.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{
    common::Time,
    run::{ActionClass, HttpRun},
};

/// Most slots of a queue, and so most entries: each is one running report. 1,024 entries of at most
/// 400 bytes leave the ledger far below the size of an object.
pub const MAX_SLOTS: i32 = 1024;
/// Most finish tags. That many recently served tenants are told from new ones; 160 kB at most.
pub const MAX_TAGS: usize = 2000;
/// Most characters of a tenant's name.
pub const MAX_TENANT_CHARS: usize = 40;
/// Most bytes, as JSON, of the `http` fields of all entries together. An address may have 2 kB, and
/// a thousand such would be more than an object can hold; usual ones have 100 bytes.
pub const MAX_LEDGER_HTTP_BYTES: usize = 128 * 1024;
/// Largest charge and largest correction, in slot-milliseconds: 30 days, the longest run there is.
/// Sums of a thousand of them, in units of a tag, stay exact in JSON (2^53).
pub const MAX_CHARGE: i64 = 30 * 24 * 3600 * 1000;
/// Tags are in slot-milliseconds times this, divided by the tenant's weight: fine enough that the
/// highest weight still moves by one unit a millisecond.
pub const TAG_SCALE: i64 = 1024;
/// Largest weight of a tenant.
pub const MAX_WEIGHT: i32 = 1000;

/// What is admitted and not over, and what the next admission is decided by. Written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Virtual time: no waiting tenant is served before it. In slot-milliseconds, times 1024, divided by the weight.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub virtual_time: i64,
    /// Tenants that were served ahead of the virtual time, by name, and up to when. Others have no debt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2000), extend("x-kubernetes-list-type" = "atomic"))]
    pub tags: Vec<TenantTag>,
    /// Reports that hold a slot, by name: admitted, and not yet proven over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<LedgerEntry>,
    /// How much of the retry budget is spent, in slot-milliseconds. 0: the budget is full.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub retry_spent: i64,
    /// Largest charge that was ever admitted, in slot-milliseconds. The retry budget has room for two of them.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2_592_000_000_i64))]
    pub largest_charge: i64,
    /// Retries for each million first attempts, of late. The estimate of the drain counts on so many more.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4_000_000))]
    pub retries_per_million: i64,
}

impl Ledger {
    /// The ledger of a queue that has admitted nothing.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Up to when a tenant was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct TenantTag {
    /// Name of the tenant.
    #[schemars(length(min = 1, max = 40))]
    pub tenant: String,
    /// Virtual time at which the tenant has used what it was given.
    #[schemars(range(min = 0))]
    pub finish: i64,
}

/// An admitted report: it holds one slot until its run is proven over, also when the ReportJob is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Name of the ReportJob. No other of that name is admitted while the entry stands.
    #[schemars(length(min = 1, max = 63))]
    pub job: String,
    /// Uid of the ReportJob.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
    /// Its tenant.
    #[schemars(length(min = 1, max = 40))]
    pub tenant: String,
    /// Number of the attempt that is admitted.
    #[schemars(range(min = 1))]
    pub attempt: i32,
    /// Key of the run, by which a provider knows it when the object is gone.
    #[schemars(length(max = 64))]
    pub run_key: String,
    /// Its action class.
    pub action_class: ActionClass,
    /// Its http provider, to ask it when the object is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRun>,
    /// What its tenant was charged, in slot-milliseconds; corrected once, when the run is over.
    #[schemars(range(min = 0, max = 2_592_000_000_i64))]
    pub charge: i64,
    /// Whether it is a retry, which is paid from the retry budget too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// When it was admitted.
    pub admitted_time: Time,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::SecretRef;

    /// An entry in which every field is as long as it may be.
    fn longest(number: usize, http: Option<HttpRun>) -> LedgerEntry {
        LedgerEntry {
            job: format!("{number:063}"),
            uid: format!("{number:064}"),
            tenant: format!("{number:040}"),
            attempt: i32::MAX,
            run_key: format!("{number:064}"),
            action_class: ActionClass::Idempotent,
            http,
            charge: MAX_CHARGE,
            retry: true,
            admitted_time: Time("2026-11-29T02:00:00.123Z".parse().unwrap()),
        }
    }

    #[test]
    fn the_largest_ledger_stays_far_below_the_size_of_an_object() {
        let http = HttpRun {
            url: format!("https://{}", "x".repeat(2040)),
            credentials_secret_ref: Some(SecretRef { name: "s".repeat(253) }),
        };
        let with_http = MAX_LEDGER_HTTP_BYTES / serde_json::to_string(&http).unwrap().len();
        let ledger = Ledger {
            virtual_time: 1 << 51,
            tags: (0..MAX_TAGS)
                .map(|n| TenantTag { tenant: format!("{n:040}"), finish: 1 << 52 })
                .collect(),
            entries: (0..usize::try_from(MAX_SLOTS).unwrap())
                .map(|n| longest(n, (n < with_http).then(|| http.clone())))
                .collect(),
            retry_spent: 2 * MAX_CHARGE,
            largest_charge: MAX_CHARGE,
            retries_per_million: 4_000_000,
        };
        let bytes = serde_json::to_string(&ledger).unwrap().len();
        assert!((500_000..800_000).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn an_empty_ledger_is_written_in_short_and_read_back() {
        let text = serde_json::to_string(&Ledger::new()).unwrap();
        assert_eq!(
            text,
            r#"{"virtualTime":0,"retrySpent":0,"largestCharge":0,"retriesPerMillion":0}"#
        );
        assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), Ledger::new());
        assert_eq!(serde_json::from_str::<Ledger>("{}").unwrap(), Ledger::new());
    }
}
