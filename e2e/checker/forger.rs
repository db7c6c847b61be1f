//! Writes audit logs that never happened, entry by entry as the API server would.

use serde_json::{Value, json};

use super::{Report, Rule, Violation, check, history::History};

pub(super) const NS: &str = "e2e";
pub(super) const OPERATOR: &str = "system:serviceaccount:e2e:punctual";
pub(super) const PERSON: &str = "punctual-e2e-admin";
pub(super) const CONTROLLER: &str = "system:serviceaccount:kube-system:job-controller";
pub(super) const IDENTITY: &str = "nightly-202611290200";

/// Writes audit entries as the API server does, one revision a write.
pub(super) struct Forger {
    pub(super) revision: u64,
    /// The entries so far; a test may tamper with them.
    pub(super) events: Vec<Value>,
    /// Uid of the occurrence that new Jobs belong to.
    pub(super) parent: &'static str,
}

/// Everything about a write that a test may want to forge.
pub(super) struct Write<'a> {
    pub(super) user: &'a str,
    pub(super) verb: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) request: Value,
    pub(super) object: Value,
}

impl Forger {
    pub(super) fn new() -> Self {
        Self { revision: 100, events: Vec::new(), parent: "o1" }
    }

    fn time(&self) -> String {
        format!("2026-11-29T02:00:00.{:06}Z", self.events.len() * 100)
    }

    /// Records a write; returns its revision.
    pub(super) fn write(&mut self, write: Write) -> u64 {
        self.revision += 1;
        let Write { user, verb, resource, subresource, mut request, mut object } = write;
        if !object.is_null() {
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        }
        if verb == "update" && request.is_null() {
            request = object.clone();
            request["metadata"]["resourceVersion"] = json!((self.revision - 1).to_string());
        }
        let uid = object["metadata"]["uid"].clone();
        self.record(user, verb, resource, subresource, 200, &request, object, &uid)
    }

    #[expect(clippy::too_many_arguments, reason = "an entry of the audit log has this many parts")]
    pub(super) fn record(
        &mut self,
        user: &str,
        verb: &str,
        resource: &str,
        subresource: &str,
        code: u64,
        request: &Value,
        object: Value,
        uid: &Value,
    ) -> u64 {
        let group = match resource {
            "leases" => "coordination.k8s.io",
            "jobs" => "batch",
            _ => "punctual.dev",
        };
        let name = if object.is_null() {
            request["metadata"]["name"].clone()
        } else {
            object["metadata"]["name"].clone()
        };
        let response = if object.is_null() {
            json!({"kind": "Status", "details": {"uid": uid}})
        } else {
            object
        };
        self.events.push(json!({
            "auditID": format!("a{}", self.events.len()),
            "stage": "ResponseComplete",
            "requestURI": format!("/apis/{group}/v1/namespaces/{NS}/{resource}"),
            "verb": verb,
            "user": {"username": user},
            "objectRef": {"resource": resource, "subresource": subresource, "namespace": NS, "name": name, "apiGroup": group},
            "responseStatus": {"code": code, "message": "refused"},
            "requestObject": request,
            "responseObject": response,
            "requestReceivedTimestamp": self.time(),
            "stageTimestamp": self.time(),
        }));
        self.revision
    }

    pub(super) fn lease(
        &mut self,
        user: &str,
        uid: &str,
        epoch: &str,
        nonce: &str,
        request: Value,
    ) -> u64 {
        let mut object = json!({"kind": "Lease", "metadata": {"name": "punctual", "uid": uid}, "spec": {"holderIdentity": format!("pod/{nonce}")}});
        if !nonce.is_empty() {
            object["metadata"]["annotations"] =
                json!({"punctual.dev/epoch": epoch, "punctual.dev/nonce": nonce});
        }
        self.write(Write {
            user,
            verb: "update",
            resource: "leases",
            subresource: "",
            request,
            object,
        })
    }

    pub(super) fn new_lease(&mut self, uid: &str) -> u64 {
        let object =
            json!({"kind": "Lease", "metadata": {"name": "punctual", "uid": uid}, "spec": {}});
        self.write(Write {
            user: OPERATOR,
            verb: "create",
            resource: "leases",
            subresource: "",
            request: Value::Null,
            object,
        })
    }

    /// An acquisition of the version that was written last; its epoch is that version.
    pub(super) fn acquire(&mut self, nonce: &str) -> i64 {
        let epoch = self.revision;
        self.lease(OPERATOR, "l1", &epoch.to_string(), nonce, Value::Null);
        i64::try_from(epoch).unwrap()
    }

    pub(super) fn schedule(&mut self, term: (i64, &str), claims: &Value) -> u64 {
        let object = json!({
            "kind": "MaintenanceSchedule", "metadata": {"name": "nightly", "uid": "s1"},
            "spec": {"schedule": "0 2 * * *"},
            "status": {"claimed": claims, "fence": {"epoch": term.0, "nonce": term.1}},
        });
        self.write(Write {
            user: OPERATOR,
            verb: "update",
            resource: "maintenanceschedules",
            subresource: "status",
            request: Value::Null,
            object,
        })
    }

    pub(super) fn create_occurrence(&mut self, mut spec: Value, uid: &str) {
        spec["scheduleName"] = json!("nightly");
        let object = json!({"kind": "MaintenanceOccurrence", "metadata": {"name": IDENTITY, "uid": uid}, "spec": spec});
        self.write(Write {
            user: OPERATOR,
            verb: "create",
            resource: "maintenanceoccurrences",
            subresource: "",
            request: Value::Null,
            object,
        });
    }

    pub(super) fn occurrence(&mut self, term: (i64, &str), uid: &str, status: Value) -> u64 {
        self.occurrence_as(OPERATOR, term, uid, &instant(), status, Value::Null)
    }

    pub(super) fn occurrence_as(
        &mut self,
        user: &str,
        term: (i64, &str),
        uid: &str,
        spec: &Value,
        mut status: Value,
        request: Value,
    ) -> u64 {
        status["fence"] = json!({"epoch": term.0, "nonce": term.1});
        let mut spec = spec.clone();
        spec["scheduleName"] = json!("nightly");
        let object = json!({"kind": "MaintenanceOccurrence", "metadata": {"name": IDENTITY, "uid": uid}, "spec": spec, "status": status});
        self.write(Write {
            user,
            verb: "update",
            resource: "maintenanceoccurrences",
            subresource: "status",
            request,
            object,
        })
    }

    pub(super) fn job(
        &mut self,
        verb: &str,
        user: &str,
        attempt: u32,
        uid: &str,
        epoch: i64,
        extra: &Value,
    ) -> u64 {
        let mut object = json!({
            "kind": "Job",
            "metadata": {
                "name": format!("{IDENTITY}-m{attempt}"), "uid": uid,
                "annotations": {"punctual.dev/epoch": epoch.to_string()},
                "ownerReferences": [{"kind": "MaintenanceOccurrence", "name": IDENTITY, "uid": self.parent}],
            },
            "spec": {"suspend": true},
        });
        let mut request = Value::Null;
        if let Some(released) = extra["released"].as_i64() {
            object["metadata"]["annotations"]["punctual.dev/released"] =
                json!(released.to_string());
            object["spec"]["suspend"] = json!(false);
            request = json!({"metadata": {"resourceVersion": "1", "annotations": {"punctual.dev/released": released.to_string()}}});
        }
        if let Some(condition) = extra["condition"].as_str() {
            object["spec"]["suspend"] = json!(false);
            object["status"]["conditions"] = json!([{"type": condition, "status": "True"}]);
        }
        let subresource = if user == CONTROLLER { "status" } else { "" };
        self.write(Write { user, verb, resource: "jobs", subresource, request, object })
    }

    pub(super) fn delete(
        &mut self,
        user: &str,
        resource: &str,
        name: &str,
        uid: &str,
        preconditions: bool,
    ) {
        self.revision += 1;
        let mut request = json!({"metadata": {"name": name}});
        if preconditions {
            request["preconditions"] = json!({"uid": uid, "resourceVersion": "1"});
        }
        self.record(user, "delete", resource, "", 200, &request, Value::Null, &json!(uid));
    }

    /// The usual life up to the committed handle of attempt 1: schedule claimed, Job prepared.
    pub(super) fn prepared(&mut self) -> i64 {
        self.new_lease("l1");
        let epoch = self.acquire("n1");
        let term = (epoch, "n1");
        self.create_occurrence(instant(), "o1");
        self.schedule(term, &claim());
        self.occurrence(term, "o1", json!({"state": "Starting"}));
        self.job("create", OPERATOR, 1, "j1", epoch, &Value::Null);
        self.occurrence(
            term,
            "o1",
            json!({"state": "Starting", "attempts": [{"number": 1, "handle": "j1"}]}),
        );
        epoch
    }

    /// The usual life up to the running Job.
    pub(super) fn running(&mut self) -> i64 {
        let epoch = self.prepared();
        self.job("patch", OPERATOR, 1, "j1", epoch, &json!({"released": epoch}));
        self.occurrence(
            (epoch, "n1"),
            "o1",
            json!({"state": "Running", "attempts": [{"number": 1, "handle": "j1"}]}),
        );
        epoch
    }

    /// The usual life to its end.
    pub(super) fn finished(&mut self) -> i64 {
        let epoch = self.running();
        self.job("update", CONTROLLER, 1, "j1", epoch, &json!({"condition": "Complete"}));
        self.occurrence((epoch, "n1"), "o1", json!({"state": "Succeeded", "result": {"rows": 3}}));
        epoch
    }

    pub(super) fn read(&self) -> History {
        let lines: Vec<String> = self.events.iter().map(Value::to_string).collect();
        History::read(lines.iter().map(String::as_str), NS, &[]).unwrap()
    }

    pub(super) fn judge(&self) -> Result<Report, Vec<Violation>> {
        check(self.read(), "punctual", &[], false)
    }

    /// The history must be rejected, and by this rule.
    pub(super) fn must_break(&self, rule: Rule) {
        match self.judge() {
            Ok(_) => panic!("the checker accepts a history that breaks {rule:?}"),
            Err(violations) => {
                assert!(
                    violations.iter().any(|violation| violation.rule == rule),
                    "not {rule:?} but {violations:?}"
                );
            }
        }
    }
}

pub(super) fn instant() -> Value {
    json!({"intendedTime": "2026-11-29T02:00:00Z", "scheduleUID": "s1"})
}

pub(super) fn claim() -> Value {
    json!([{"time": "2026-11-29T02:00:00Z", "uid": "o1", "start": true}])
}
