//! `punctual resubmit`: a report that its queue did not take is created again.
//!
//! A Rejected report claims no identity, and what is over never changes, so "again" is: delete the
//! record, create the same spec. Between the two the request exists nowhere in the cluster. So the
//! API server is asked first whether it would create it (a dry run passes the schema, the rules,
//! policies and quota before it finds the name taken), a copy is kept on disk, and Ctrl-C waits.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::{
    api::{ReportJob, ReportState},
    cli::{
        CliError, DONE, output, program,
        target::{Connection, Output, Target, TargetKind, block_on, read},
        trouble::Call,
        when,
    },
    cluster::{ApiError, Created, ObjectKey, Person, Raw},
    time::WallClock,
    yaml,
};

/// How often the create is tried after the delete. With the pause between them, a short outage of
/// the API server passes.
const CREATE_TRIES: usize = 10;
/// Pause between two tries.
const CREATE_PAUSE: Duration = Duration::from_secs(2);

/// Arguments of `punctual resubmit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Its queue was full; create it again, once its retryAfterTime has passed.
  kubectl punctual resubmit rjob/acme-usage-2026-11
  # Do not wait for that time: it may well be rejected again.
  kubectl punctual resubmit rjob/acme-usage-2026-11 --now

Only a Rejected report is resubmitted: nothing of it ran, and nothing was promised.

Exit codes: 0 created again; 1 it is not Rejected, it is too early, or something is wrong; 2 bad usage.")]
pub struct Args {
    /// The report, like rjob/acme-usage-2026-11.
    object: String,
    /// Do not wait for status.retryAfterTime.
    #[arg(long)]
    now: bool,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    object: String,
    namespace: String,
    /// Uid of the record that was deleted.
    deleted: String,
    /// Uid of the new one.
    created: String,
}

/// Runs `punctual resubmit`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let target = Target::parse(&args.object, &[TargetKind::ReportJob])?;
    block_on(async {
        let person = args.connection.connect().await?;
        let old: Raw<ReportJob> = read(&person, &target.name).await?;
        let now = (!args.now).then(|| WallClock::system().now());
        let new = again(&old, now, program())?;
        let answer = replace(&person, &old, &new, &target, &std::env::temp_dir()).await?;
        output::print(args.output, &answer, || {
            format!("{target} created again; its queue answers it as any new report\n")
        })?;
        Ok(DONE)
    })
}

/// The same request as a new object, if that is the right way. `now` unless the time to come back
/// does not matter.
fn again(
    old: &Raw<ReportJob>,
    now: Option<Timestamp>,
    program: &str,
) -> Result<Raw<ReportJob>, CliError> {
    let unreadable = |error: serde_json::Error| {
        CliError::Failed(format!("the report cannot be read; correct it: {error}"))
    };
    let typed: ReportJob = serde_json::from_value(serde_json::to_value(old).map_err(unreadable)?)
        .map_err(unreadable)?;
    if let Some(why) = refusal(&typed, now, program) {
        return Err(CliError::Failed(why));
    }
    let ObjectMeta { name, namespace, labels, annotations, owner_references, .. } =
        old.metadata.clone();
    let metadata = ObjectMeta {
        name,
        namespace,
        labels,
        annotations,
        owner_references,
        ..ObjectMeta::default()
    };
    let mut content = old.content.clone();
    content.remove("status");
    if let Some(Value::Object(spec)) = content.get_mut("spec") {
        spec.remove("resolution"); // about an attempt that this one never had
    }
    Ok(Raw::new(metadata, content))
}

/// Why it is not resubmitted, and which other way there is.
fn refusal(job: &ReportJob, now: Option<Timestamp>, program: &str) -> Option<String> {
    let key = ObjectKey::of(&job.metadata);
    let status = job.status.clone().unwrap_or_default();
    let (name, namespace) = (format!("rjob/{}", key.name), &key.namespace);
    let reason = status.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let state = status.state.unwrap_or(ReportState::Queued);
    let other_way = match state {
        ReportState::Rejected => return rejected_refusal(job, now, &name),
        ReportState::Queued | ReportState::Admitted | ReportState::Running => {
            "it is on its way; there is nothing to submit again".to_owned()
        }
        ReportState::Cancelling => {
            "once it is Cancelled, create a ReportJob of another name if it is wanted after all"
                .to_owned()
        }
        ReportState::Unresolved => format!(
            "it may still run: decide with `{program} resolve {name} --namespace {namespace} \
             --decision Retry …`"
        ),
        ReportState::Succeeded => {
            "it is done; create a ReportJob of another name to report once more".to_owned()
        }
        ReportState::Failed | ReportState::Cancelled => "this record of what ran stays; create a \
             ReportJob of another name with the same spec to try once more"
            .to_owned(),
    };
    Some(format!("{name} is {state:?}{reason}, not Rejected: {other_way}"))
}

/// Why a Rejected one is not resubmitted.
fn rejected_refusal(job: &ReportJob, now: Option<Timestamp>, name: &str) -> Option<String> {
    if let Some(schedule) = &job.spec.schedule_name {
        return Some(format!(
            "{name} is an instant of rsched/{schedule}, which has accounted for it; create a \
             ReportJob of another name to report the same"
        ));
    }
    if job.spec.cancel {
        return Some(format!("{name} was cancelled by its spec; a new one would be, too"));
    }
    if job.metadata.deletion_timestamp.is_some() {
        return Some(format!("{name} is being deleted"));
    }
    if let Some(first) = job.metadata.finalizers.iter().flatten().next() {
        return Some(format!(
            "{name} has the finalizer {first}, so its name would not be free at once; delete it and \
             create it again yourself"
        ));
    }
    let (now, at) = (now?, job.status.as_ref()?.retry_after_time?.0);
    (now < at).then(|| {
        format!(
            "{name} was told to come back at {at}, in {}: its queue is not likely to take it before; \
             --now tries all the same",
            when::until(now, at)
        )
    })
}

/// Deletes the old one and creates the new one, so that the request is never lost. `folder` is where
/// a copy is kept meanwhile.
async fn replace(
    person: &Person,
    old: &Raw<ReportJob>,
    new: &Raw<ReportJob>,
    target: &Target,
    folder: &Path,
) -> Result<Answer, CliError> {
    let create = Call::of::<ReportJob>("create", person);
    person.would_create(new).await.map_err(|error| create.failed(error))?;
    let copy = Copy::keep(new, folder)?;
    // From here on the person's Ctrl-C and a terminal that closes do not end the program.
    let failed = |error: io::Error| CliError::Failed(format!("cannot hold back Ctrl-C: {error}"));
    let _deaf = [
        signal(SignalKind::interrupt()).map_err(failed)?,
        signal(SignalKind::hangup()).map_err(failed)?,
        signal(SignalKind::terminate()).map_err(failed)?,
    ];
    if let Err(error) = person.delete(old).await {
        return Err(match error {
            // It may be gone: the copy stays.
            error if error.is_outcome_unknown() => copy.left(target, &error),
            ApiError::Conflict { .. } => {
                copy.forget();
                CliError::Failed(format!(
                    "{target} changed meanwhile; nothing was deleted, try again"
                ))
            }
            error => {
                copy.forget();
                Call::of::<ReportJob>("delete", person).failed(error)
            }
        });
    }
    match create_again(person, old, new).await {
        Ok(created) => {
            copy.forget();
            Ok(Answer {
                object: target.to_string(),
                namespace: person.namespace().to_owned(),
                deleted: old.metadata.uid.clone().unwrap_or_default(),
                created: created.metadata.uid.unwrap_or_default(),
            })
        }
        Err(error) => Err(copy.left(target, &error)),
    }
}

/// Creates it, through a short outage too. Its name is the lock: whatever was sent, one is created.
async fn create_again(
    person: &Person,
    old: &Raw<ReportJob>,
    new: &Raw<ReportJob>,
) -> Result<Raw<ReportJob>, ApiError> {
    let mut last = ApiError::AlreadyExists;
    for _ in 0..CREATE_TRIES {
        match person.create(new).await {
            Ok(Created::New(created)) => return Ok(created),
            Ok(Created::Existing(seen)) if seen.metadata.uid == old.metadata.uid => {
                last = ApiError::AlreadyExists; // not gone yet
            }
            // Ours, if the answer to an earlier try was lost; or somebody had the same thought.
            Ok(Created::Existing(seen)) if seen.content.get("spec") == new.content.get("spec") => {
                return Ok(seen);
            }
            Ok(Created::Existing(_)) => return Err(ApiError::AlreadyExists),
            Err(error) if error.is_transient() || error == ApiError::NotFound => last = error,
            Err(error) => return Err(error),
        }
        sleep(CREATE_PAUSE).await;
    }
    Err(last)
}

/// A copy of the request on disk, while it may exist nowhere else.
struct Copy {
    path: PathBuf,
    text: String,
}

impl Copy {
    fn keep(new: &Raw<ReportJob>, folder: &Path) -> Result<Self, CliError> {
        let key = ObjectKey::of(&new.metadata);
        let file =
            format!("punctual-resubmit-{}-{}-{}.yaml", key.namespace, key.name, std::process::id());
        let path = folder.join(file);
        let failed = |error: String| {
            let path = path.display();
            CliError::Failed(format!(
                "nothing was deleted, because no copy can be kept in {path} (TMPDIR chooses another \
                 folder): {error}"
            ))
        };
        let text = yaml::to_string(new).map_err(|error| failed(error.to_string()))?;
        write_new(&path, &text).map_err(|error| failed(error.to_string()))?;
        Ok(Self { path, text })
    }

    fn forget(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            eprintln!("{}: cannot remove {}: {error}", program(), self.path.display());
        }
    }

    /// The request may be nowhere else now: it is shown, and its copy stays.
    fn left(self, target: &Target, error: &ApiError) -> CliError {
        eprintln!("{}", self.text);
        let path = self.path.display();
        CliError::Failed(format!(
            "{target} may be deleted and was not created again: {error}. The request is printed above \
             and kept in {path}: look with `kubectl get {target}`, and if it is not there create it \
             with `kubectl create -f {path}`"
        ))
    }
}

/// Writes a file that did not exist, for its owner alone, down to the disk.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::{
        cli::act::work::made,
        cluster::fake::{FakeApi, Fault},
    };

    const JOBS: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportjobs";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn raw(spec: &Value, status: &Value) -> Raw<ReportJob> {
        serde_json::from_value(serde_json::to_value(made::report(spec, status)).unwrap()).unwrap()
    }

    fn rejected(spec: &Value) -> Raw<ReportJob> {
        let status = json!({
            "state": "Rejected", "reason": "QueueFull", "retryAfterTime": "2026-11-29T02:10:00Z",
        });
        raw(spec, &status)
    }

    fn refused(old: &Raw<ReportJob>, now: &str) -> String {
        again(old, Some(at(now)), "punctual").unwrap_err().to_string()
    }

    #[test]
    fn the_same_request_without_what_was_recorded() {
        let mut old = rejected(&json!({"fieldOfTomorrow": 1, "parameters": {"month": "2026-11"}}));
        old.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        old.metadata.resource_version = Some("7".to_owned());
        old.content["spec"]["fieldOfTomorrow"] = json!(1);
        let new = again(&old, Some(at("2026-11-29T02:10:00Z")), "punctual").unwrap();
        assert_eq!(new.content["spec"], old.content["spec"], "fields of newer versions too");
        assert_eq!(new.metadata.labels, old.metadata.labels);
        assert_eq!((&new.metadata.uid, &new.metadata.resource_version), (&None, &None));
        assert!(!new.content.contains_key("status"));
        assert_eq!(new.content["kind"], "ReportJob");
    }

    #[test]
    fn it_waits_for_the_time_it_was_told_unless_it_is_forced() {
        let old = rejected(&json!({}));
        let early = refused(&old, "2026-11-29T02:00:00Z");
        assert!(early.contains("2026-11-29T02:10:00Z, in 10m 0s") && early.contains("--now"));
        assert!(again(&old, None, "punctual").is_ok());
    }

    #[test]
    fn others_are_refused_with_the_other_way() {
        let late = "2026-11-29T03:00:00Z";
        for (state, way) in [
            ("Queued", "on its way"),
            ("Running", "on its way"),
            ("Cancelling", "another name"),
            ("Unresolved", "punctual resolve rjob/acme-1 --namespace docs"),
            ("Succeeded", "another name"),
            ("Failed", "another name"),
            ("Cancelled", "another name"),
        ] {
            let old = raw(&json!({}), &json!({"state": state, "reason": "Because"}));
            let said = refused(&old, late);
            assert!(said.contains(way) && said.contains("(Because), not Rejected"), "{said}");
        }
        let of_schedule = json!({
            "scheduleName": "acme", "intendedTime": "2026-11-29T02:00:00Z", "scheduleUID": "u",
        });
        assert!(refused(&rejected(&of_schedule), late).contains("an instant of rsched/acme"));
        assert!(refused(&rejected(&json!({"cancel": true})), late).contains("was cancelled"));
        let mut guarded = rejected(&json!({}));
        guarded.metadata.finalizers = Some(vec!["example.com/x".to_owned()]);
        assert!(refused(&guarded, late).contains("finalizer example.com/x"));
    }

    async fn scene() -> (FakeApi, Person, Raw<ReportJob>, Raw<ReportJob>) {
        let fake = FakeApi::new();
        fake.put(JOBS, serde_json::to_value(rejected(&json!({}))).unwrap());
        let person = Person::single(&fake.client(), "docs");
        let old: Raw<ReportJob> = read(&person, "acme-1").await.unwrap();
        let new = again(&old, None, "punctual").unwrap();
        (fake, person, old, new)
    }

    /// A folder of its own for each test, which is empty in the end.
    fn folder(test: &str) -> PathBuf {
        let name = format!("punctual-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    fn target() -> Target {
        Target { kind: TargetKind::ReportJob, name: "acme-1".to_owned() }
    }

    fn stored_uid(fake: &FakeApi) -> Option<String> {
        let stored = fake.stored(&format!("{JOBS}/acme-1"))?;
        Some(stored["metadata"]["uid"].as_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn it_is_asked_for_then_deleted_then_created() {
        let (fake, person, old, new) = scene().await;
        let folder = folder("created");
        let answer = replace(&person, &old, &new, &target(), &folder).await.unwrap();
        fs::remove_dir(folder).unwrap();
        assert_eq!(stored_uid(&fake), Some(answer.created));
        assert_eq!(Some(answer.deleted), old.metadata.uid);
        let writes: Vec<(Method, bool)> = fake
            .log()
            .into_iter()
            .filter(|one| one.method != Method::GET)
            .map(|one| (one.method, one.query.contains("dryRun")))
            .collect();
        let order = [(Method::POST, true), (Method::DELETE, false), (Method::POST, false)];
        assert_eq!(writes, order);
    }

    #[tokio::test]
    async fn what_would_be_refused_or_has_changed_is_not_deleted() {
        let (fake, person, old, new) = scene().await;
        let folder = folder("unchanged");
        fake.fault(Method::POST, "reportjobs", Fault::Refuse(422, "Invalid"));
        replace(&person, &old, &new, &target(), &folder).await.unwrap_err();
        assert_eq!(stored_uid(&fake), old.metadata.uid);
        person.change(&old, json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
        let changed = replace(&person, &old, &new, &target(), &folder).await.unwrap_err();
        let changed = changed.to_string();
        fs::remove_dir(folder).unwrap();
        assert!(changed.contains("nothing was deleted"), "{changed}");
        assert_eq!(stored_uid(&fake), old.metadata.uid);
    }

    #[tokio::test(start_paused = true)]
    async fn the_create_goes_through_an_outage_and_creates_one() {
        let (fake, person, old, new) = scene().await;
        person.delete(&old).await.unwrap();
        fake.fault(Method::POST, "reportjobs", Fault::LoseRequest);
        fake.fault(Method::POST, "reportjobs", Fault::LoseResponse);
        let created = create_again(&person, &old, &new).await.unwrap();
        assert_eq!(stored_uid(&fake), created.metadata.uid);
        assert_eq!(fake.faults_left(), 0);
        // Somebody else took the name for something else.
        let mut other = new.clone();
        other.content["spec"]["tenant"] = json!("other");
        assert_eq!(create_again(&person, &old, &other).await.unwrap_err(), ApiError::AlreadyExists);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_could_not_be_created_again_is_kept() {
        let (fake, person, old, new) = scene().await;
        person.delete(&old).await.unwrap();
        for _ in 0..CREATE_TRIES {
            fake.fault(Method::POST, "reportjobs", Fault::LoseRequest);
        }
        let error = create_again(&person, &old, &new).await.unwrap_err();
        let folder = folder("kept");
        let copy = Copy::keep(&new, &folder).unwrap();
        let path = copy.path.clone();
        let said = copy.left(&target(), &error).to_string();
        assert!(said.contains(&format!("kubectl create -f {}", path.display())), "{said}");
        let kept: Raw<ReportJob> = yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(kept.content["spec"], new.content["spec"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
