//! No fence, no campaign: whether the API server enforces the rules that safety rests on.
//!
//! The third part of the check, a trial under an older epoch after the first seal of each kind in a
//! term, is in [`super::FencedWriter::write_status`].

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiError, FencedWriter, Reader, WriteError};
use crate::api::{
    self, MAX_MESSAGE_CHARS, MaintenanceOccurrence, MaintenanceOccurrenceSpec, NAME_RULE_MESSAGE,
    truncate,
};

/// Name that no occurrence may have: its name would have to be [`PROBE_SCHEDULE`] and twelve digits.
const PROBE_NAME: &str = "punctual-fence-check";
/// Schedule of the occurrence that is never created.
const PROBE_SCHEDULE: &str = "punctual";
/// Where a schema keeps its rules.
const RULES: &str = "x-kubernetes-validations";

/// What the check reads of a CRD: it is asked every minute by every follower. The schema stays plain
/// JSON, because it is walked and compared, not understood.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = CustomResourceDefinition)]
struct Installed {
    metadata: ObjectMeta,
    spec: Versions,
}

#[derive(Clone, Debug, Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    served: bool,
    schema: Option<Schema>,
}

#[derive(Clone, Debug, Deserialize)]
struct Schema {
    #[serde(rename = "openAPIV3Schema")]
    root: Option<Value>,
}

/// Rules by their place in the schema.
type Rules = BTreeMap<String, Value>;

/// The rules of this program's CRDs, each with the CRD's name, in the order of installation.
fn wanted() -> &'static [(String, Rules)] {
    static WANTED: OnceLock<Vec<(String, Rules)>> = OnceLock::new();
    WANTED.get_or_init(|| {
        let own = api::crds().iter().filter_map(|crd| {
            let installed: Installed = serde_json::from_value(serde_json::to_value(crd).ok()?)
                .expect("the CRDs of this program have versions with a schema");
            Some((installed.metadata.name.clone()?, rules(&installed)?))
        });
        own.collect()
    })
}

/// Something that is missing on the API server, or not known to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// A CRD is not installed.
    CrdMissing {
        /// Its name.
        crd: String,
    },
    /// A CRD does not serve the version that this program speaks.
    VersionMissing {
        /// Its name.
        crd: String,
    },
    /// A CRD has other rules than this program's.
    RulesDiffer {
        /// Its name.
        crd: String,
        /// Where in the schema, for example `.spec.schedule`.
        path: String,
    },
    /// The API server accepts an occurrence whose name is not its identity.
    NameRuleNotEnforced,
    /// The question got no answer that says either.
    NotKnown {
        /// What was asked.
        what: String,
        /// What came back.
        why: String,
    },
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrdMissing { crd } => write!(f, "CRD {crd} is not installed"),
            Self::VersionMissing { crd } => {
                write!(f, "CRD {crd} does not serve {}", api::VERSION)
            }
            Self::RulesDiffer { crd, path } => write!(
                f,
                "CRD {crd} has other validation rules at {path} than this version's; install the \
                 CRDs of this version"
            ),
            Self::NameRuleNotEnforced => {
                f.write_str("the API server accepts an occurrence whose name is not its identity")
            }
            Self::NotKnown { what, why } => write!(f, "{what}: {why}"),
        }
    }
}

/// What the check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceCheck {
    /// What is missing; empty if the process may campaign.
    pub gaps: Vec<Gap>,
}

impl FenceCheck {
    /// Reason for readiness, events and conditions while something is missing.
    pub const REASON: &'static str = "FenceNotEnforced";

    /// Whether everything is there.
    pub fn passed(&self) -> bool {
        self.gaps.is_empty()
    }
}

impl fmt::Display for FenceCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentences: Vec<String> = self.gaps.iter().map(ToString::to_string).collect();
        f.write_str(&truncate(&sentences.join("; "), MAX_MESSAGE_CHARS))
    }
}

/// Asks the API server whether it enforces the rules: reads the CRDs (left out where this process may
/// not read them) and dry-runs a create with a wrong name in `namespace`.
pub async fn check_fence(reader: &Reader, writer: &FencedWriter, namespace: &str) -> FenceCheck {
    let mut gaps = Vec::new();
    for (crd, wanted) in wanted() {
        let crd = crd.clone();
        match reader.get_cluster::<Installed>(&crd).await {
            Ok(Some(found)) => gaps.extend(compare(&crd, wanted, &found)),
            Ok(None) => gaps.push(Gap::CrdMissing { crd }),
            Err(ApiError::Forbidden { .. }) => {}
            Err(error) => gaps
                .push(Gap::NotKnown { what: format!("reading CRD {crd}"), why: error.to_string() }),
        }
    }
    gaps.extend(try_wrong_name(writer, namespace).await);
    FenceCheck { gaps }
}

/// Only a refusal with the message of the name rule counts.
async fn try_wrong_name(writer: &FencedWriter, namespace: &str) -> Option<Gap> {
    let mut probe = MaintenanceOccurrence::new(
        PROBE_NAME,
        MaintenanceOccurrenceSpec {
            schedule_name: PROBE_SCHEDULE.to_owned(),
            intended_time: "2000-01-01T00:00:00Z"
                .parse()
                .expect("the literal is an instant in its one spelling"),
            schedule_uid: None,
            run: None,
            cancel: false,
            resolution: None,
        },
    );
    probe.metadata = ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(PROBE_NAME.to_owned()),
        ..ObjectMeta::default()
    };
    match writer.dry_run_create(&probe).await {
        Ok(_) => Some(Gap::NameRuleNotEnforced),
        Err(WriteError::Api(ApiError::Invalid { message }))
            if message.contains(NAME_RULE_MESSAGE) =>
        {
            None
        }
        Err(error) => Some(Gap::NotKnown {
            what: "asking whether a wrong name is refused".to_owned(),
            why: error.to_string(),
        }),
    }
}

/// Where the rules of the served version differ.
fn compare(crd: &str, wanted: &Rules, found: &Installed) -> Vec<Gap> {
    let Some(found) = rules(found) else {
        return vec![Gap::VersionMissing { crd: crd.to_owned() }];
    };
    let paths: std::collections::BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    paths
        .into_iter()
        .filter(|path| wanted.get(*path) != found.get(*path))
        .map(|path| Gap::RulesDiffer { crd: crd.to_owned(), path: path.clone() })
        .collect()
}

/// All rules of the version this program speaks, by their place in the schema. `None` if that
/// version is not served with a schema.
fn rules(crd: &Installed) -> Option<Rules> {
    let version = crd.spec.versions.iter().find(|version| version.name == api::VERSION)?;
    let schema = version.schema.as_ref().filter(|_| version.served)?;
    let mut found = BTreeMap::new();
    collect(schema.root.as_ref()?, "", &mut found);
    Some(found)
}

/// Walks a schema. Its depth is bounded by what the API server accepts as a CRD.
fn collect(schema: &Value, path: &str, found: &mut Rules) {
    if let Some(rules) = schema.get(RULES) {
        let place = if path.is_empty() { "the root" } else { path };
        found.insert(place.to_owned(), normal(rules));
    }
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        collect(property, &format!("{path}.{name}"), found);
    }
    for (of, sign) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(inner) = schema.get(of) {
            collect(inner, &format!("{path}{sign}"), found);
        }
    }
}

/// Rules without what the API server may fill in: the default reason.
fn normal(rules: &Value) -> Value {
    let mut rules = rules.clone();
    for rule in rules.as_array_mut().into_iter().flatten() {
        if rule.get("reason") == Some(&json!("FieldValueInvalid"))
            && let Some(rule) = rule.as_object_mut()
        {
            rule.remove("reason");
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::cluster::{
        Clients, NoObserver,
        fake::{FakeApi, Fault},
    };

    const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    fn install(fake: &FakeApi) {
        for crd in api::crds() {
            fake.put(CRDS, serde_json::to_value(crd).unwrap());
        }
    }

    async fn check(fake: &FakeApi) -> FenceCheck {
        let clients = Clients::single(fake.client());
        check_fence(&clients.reader(), &clients.writer(NoObserver), "ops").await
    }

    fn schedules() -> String {
        format!("{CRDS}/maintenanceschedules.punctual.dev")
    }

    #[tokio::test(start_paused = true)]
    async fn the_own_crds_pass() {
        let fake = FakeApi::new();
        install(&fake);
        let found = check(&fake).await;
        assert!(found.passed(), "{found}");
        let probe = fake.log().into_iter().find(|entry| entry.method == Method::POST).unwrap();
        assert!(probe.query.contains("dryRun=All"));
    }

    #[tokio::test(start_paused = true)]
    async fn every_difference_is_named() {
        fn schema(crd: &mut Value) -> &mut Value {
            &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        }
        type Edit = fn(&mut Value);
        let edits: [(Edit, &str); 6] = [
            (|crd| drop(schema(crd).as_object_mut().unwrap().remove(RULES)), "the root"),
            (|crd| drop(schema(crd)[RULES].as_array_mut().unwrap().pop()), "the root"),
            (|crd| schema(crd)[RULES][0]["rule"] = json!("true"), "the root"),
            (|crd| schema(crd)[RULES][0]["message"] = json!("other"), "the root"),
            (
                |crd| schema(crd)["properties"]["status"][RULES] = json!([{"rule": "true"}]),
                ".status",
            ),
            (
                |crd| {
                    let spec = &mut schema(crd)["properties"]["spec"]["properties"];
                    drop(spec["schedule"].as_object_mut().unwrap().remove(RULES));
                },
                ".spec.schedule",
            ),
        ];
        for (edit, path) in edits {
            let fake = FakeApi::new();
            install(&fake);
            fake.edit(&schedules(), edit);
            let crd = "maintenanceschedules.punctual.dev".to_owned();
            let found = check(&fake).await;
            assert_eq!(found.gaps, [Gap::RulesDiffer { crd, path: path.to_owned() }]);
            assert!(found.to_string().contains("install the CRDs of this version"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rules_of_every_kind_are_compared() {
        for crd in api::crds() {
            let crd = crd.metadata.name.clone().unwrap();
            let fake = FakeApi::new();
            install(&fake);
            fake.edit(&format!("{CRDS}/{crd}"), |crd| {
                let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
                drop(schema[RULES].as_array_mut().unwrap().remove(1));
            });
            let path = "the root".to_owned();
            assert_eq!(check(&fake).await.gaps, [Gap::RulesDiffer { crd, path }]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_installed_or_served_is_named() {
        let fake = FakeApi::new();
        install(&fake);
        fake.edit(&schedules(), |crd| crd["spec"]["versions"][0]["served"] = json!(false));
        fake.remove(&format!("{CRDS}/maintenanceoccurrences.punctual.dev"));
        let crd = |name: &str| format!("{name}.punctual.dev");
        let mut gaps = check(&fake).await.gaps;
        gaps.sort_by_key(ToString::to_string);
        assert_eq!(
            gaps,
            [
                Gap::CrdMissing { crd: crd("maintenanceoccurrences") },
                Gap::VersionMissing { crd: crd("maintenanceschedules") },
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn where_crds_may_not_be_read_the_trial_decides() {
        for (rule, passes) in [(true, true), (false, false)] {
            let fake = FakeApi::new();
            for _ in api::crds() {
                let forbidden = Fault::Refuse(403, "Forbidden");
                fake.fault(Method::GET, "customresourcedefinitions", forbidden);
            }
            if !rule {
                fake.without_name_rule();
            }
            let found = check(&fake).await;
            assert_eq!(found.passed(), passes);
            if !passes {
                assert_eq!(found.gaps, [Gap::NameRuleNotEnforced]);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_rules_own_refusal_counts() {
        for fault in [
            Fault::Refuse(422, "Invalid"),
            Fault::Refuse(403, "Forbidden"),
            Fault::Refuse(404, "NotFound"),
            Fault::Refuse(500, "InternalError"),
            Fault::LoseRequest,
        ] {
            let fake = FakeApi::new();
            install(&fake);
            fake.fault(Method::POST, "maintenanceoccurrences", fault.clone());
            let found = check(&fake).await;
            assert!(matches!(found.gaps[..], [Gap::NotKnown { .. }]), "{fault:?}: {found}");
        }
    }

    #[test]
    fn every_kind_has_rules_that_are_compared() {
        let rules = wanted();
        assert_eq!(rules.len(), api::crds().len());
        assert!(rules.iter().all(|(_, rules)| rules.contains_key("the root")), "{rules:?}");
    }

    #[test]
    fn a_default_that_the_server_fills_in_is_no_difference() {
        let with = json!([{"rule": "x", "reason": "FieldValueInvalid"}]);
        assert_eq!(normal(&with), json!([{"rule": "x"}]));
        let other = json!([{"rule": "x", "reason": "FieldValueForbidden"}]);
        assert_eq!(normal(&other), other);
    }
}
