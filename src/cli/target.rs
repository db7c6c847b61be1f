//! What commands that act on a cluster share: the connection, `KIND/NAME`, and the output format.

use std::fmt;

use kube::CustomResourceExt;

use super::{
    CliError,
    trouble::{self, Call},
};
use crate::{
    api::{
        GROUP, MAX_NAME_CHARS, MaintenanceOccurrence, MaintenanceSchedule, RecoveryTrace,
        ReportJob, ReportQueue, ReportSchedule, VERSION,
    },
    cluster::{ApiError, Object, ObjectKey, Person, kind_of},
};

/// Where the object is.
#[derive(Debug, clap::Args)]
pub struct Connection {
    /// Namespace; default: the one of the kubeconfig's context.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Context of the kubeconfig; default: the current one.
    #[arg(long)]
    context: Option<String>,
}

impl Connection {
    /// Connects with the rights of the person who runs the command.
    pub async fn connect(&self) -> Result<Person, CliError> {
        self.connect_in(None).await
    }

    /// Whether a namespace was asked for, rather than taken from the context.
    pub fn names_a_namespace(&self) -> bool {
        self.namespace.is_some()
    }

    /// The same for an object whose file names a namespace, which must not be another than the
    /// one asked for.
    pub async fn connect_in(&self, of_file: Option<&str>) -> Result<Person, CliError> {
        if let (Some(asked), Some(of_file)) = (&self.namespace, of_file)
            && asked != of_file
        {
            return Err(CliError::BadUsage(format!(
                "--namespace is {asked:?}, but metadata.namespace of the file is {of_file:?}"
            )));
        }
        let namespace = self.namespace.as_deref().or(of_file);
        let connected = Person::connect(self.context.as_deref(), namespace).await;
        connected.map_err(|error| trouble::not_connected(&error))
    }
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// The kinds that commands name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A MaintenanceSchedule.
    MaintenanceSchedule,
    /// A MaintenanceOccurrence.
    MaintenanceOccurrence,
    /// A ReportSchedule.
    ReportSchedule,
    /// A ReportQueue.
    ReportQueue,
    /// A ReportJob.
    ReportJob,
    /// A RecoveryTrace.
    RecoveryTrace,
}

/// How a kind is called.
struct Names {
    kind: &'static str,
    plural: String,
    short: &'static str,
}

impl Names {
    fn of<K: Object + CustomResourceExt>() -> Self {
        Self {
            kind: kind_of::<K>(),
            plural: K::plural(&()).into_owned(),
            short: K::shortnames().first().copied().unwrap_or_default(),
        }
    }
}

impl TargetKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::MaintenanceSchedule,
        Self::MaintenanceOccurrence,
        Self::ReportSchedule,
        Self::ReportQueue,
        Self::ReportJob,
        Self::RecoveryTrace,
    ];

    fn names(self) -> Names {
        match self {
            Self::MaintenanceSchedule => Names::of::<MaintenanceSchedule>(),
            Self::MaintenanceOccurrence => Names::of::<MaintenanceOccurrence>(),
            Self::ReportSchedule => Names::of::<ReportSchedule>(),
            Self::ReportQueue => Names::of::<ReportQueue>(),
            Self::ReportJob => Names::of::<ReportJob>(),
            Self::RecoveryTrace => Names::of::<RecoveryTrace>(),
        }
    }

    /// The kind, as in a manifest.
    pub fn kind(self) -> &'static str {
        self.names().kind
    }

    /// The short name, as in `kubectl get`.
    pub fn short(self) -> &'static str {
        self.names().short
    }

    /// The kind that a person means by `word`: short name, singular or plural, alone, with the group,
    /// or with version and group, as kubectl takes them.
    pub fn named(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let name = word.strip_suffix(GROUP).and_then(|word| word.strip_suffix('.'));
        let name = name.map(|name| name.strip_suffix(&format!(".{VERSION}")).unwrap_or(name));
        let name = name.unwrap_or(&word);
        Self::ALL.into_iter().find(|kind| {
            let Names { kind, plural, short } = kind.names();
            [short, kind, &plural].iter().any(|called| called.eq_ignore_ascii_case(name))
        })
    }

    /// An object of this kind, for sentences that show how one is written.
    fn example(self) -> &'static str {
        match self {
            Self::MaintenanceSchedule => "msched/nightly-retention",
            Self::MaintenanceOccurrence => "mocc/nightly-retention-202611290200",
            Self::ReportSchedule => "rsched/monthly-invoices",
            Self::ReportQueue => "rqueue/reports",
            Self::ReportJob => "rjob/acme-usage-2026-11",
            Self::RecoveryTrace => "rtrace/punctual-184467",
        }
    }
}

/// The kinds of schedules.
pub const SCHEDULES: [TargetKind; 2] =
    [TargetKind::MaintenanceSchedule, TargetKind::ReportSchedule];
/// The kinds of which each object is one piece of work.
pub const WORK: [TargetKind; 2] = [TargetKind::MaintenanceOccurrence, TargetKind::ReportJob];

/// An object that a person names: `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
}

impl Target {
    /// The object of one of the `wanted` kinds that `text` names.
    pub fn parse(text: &str, wanted: &[TargetKind]) -> Result<Self, CliError> {
        let refuse = |problem: &str| {
            let examples: Vec<&str> = wanted.iter().map(|kind| kind.example()).collect();
            CliError::BadUsage(format!(
                "{text:?} {problem}; write it like {}",
                examples.join(" or ")
            ))
        };
        let Some((word, name)) = text.split_once('/') else {
            return Err(refuse("does not say which kind it is"));
        };
        let Some(kind) = TargetKind::named(word) else {
            return Err(refuse("names no kind of Punctual"));
        };
        if !wanted.contains(&kind) {
            return Err(refuse(&format!("is a {}, which this command does not take", kind.kind())));
        }
        if !is_object_name(name) {
            return Err(refuse("has no name that an object can have"));
        }
        Ok(Self { kind, name: name.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.short(), self.name)
    }
}

/// Whether an object can have this name. What cannot be one is not sent: it becomes part of a path.
pub fn is_object_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with(['-', '.'])
        && !name.ends_with(['-', '.'])
}

/// What went wrong with the cluster, for a person.
pub fn api_error(error: ApiError) -> CliError {
    match error {
        ApiError::Invalid { message } => CliError::BadUsage(message),
        error => CliError::Failed(error.to_string()),
    }
}

/// The object with this name, if there is one.
pub async fn find<K: Object>(person: &Person, name: &str) -> Result<Option<K>, CliError> {
    let key = ObjectKey::new(person.namespace(), name);
    let found = person.reader().get(&key).await;
    found.map_err(|error| match error {
        ApiError::Malformed { message } => CliError::Failed(format!(
            "{} {:?} in namespace {:?} cannot be read; correct it: {message}",
            kind_of::<K>(),
            key.name,
            key.namespace
        )),
        error => Call::of::<K>("get", person).failed(error),
    })
}

/// The object with this name.
pub async fn read<K: Object>(person: &Person, name: &str) -> Result<K, CliError> {
    match find(person, name).await? {
        Some(object) => Ok(object),
        None => Err(not_found::<K>(person, name).await),
    }
}

/// There is no such object, or the cluster does not even know its kind.
async fn not_found<K: Object>(person: &Person, name: &str) -> CliError {
    let (kind, namespace) = (kind_of::<K>(), person.namespace());
    if let Ok(false) = person.knows_the_kinds().await {
        return CliError::Failed(format!(
            "the cluster at {} does not know the kind {kind}: install Punctual there \
             (`punctual crds | kubectl apply --server-side -f -`), or choose another with --context",
            person.server()
        ));
    }
    CliError::Failed(format!(
        "there is no {kind} {name:?} in namespace {namespace:?}; --namespace chooses another"
    ))
}

/// Runs an asynchronous command to its end.
pub fn block_on<T, F>(command: F) -> Result<T, CliError>
where
    F: Future<Output = Result<T, CliError>>,
{
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("cannot start: {error}")))?
        .block_on(command)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::cluster::fake::{FakeApi, Fault};

    #[test]
    fn one_parser_knows_all_names_of_all_kinds() {
        for kind in TargetKind::ALL {
            let Names { plural, short, .. } = kind.names();
            let singular = kind.kind().to_ascii_lowercase();
            for word in [
                short.to_owned(),
                singular,
                kind.kind().to_owned(),
                plural.clone(),
                format!("{plural}.punctual.dev"),
                format!("{plural}.v1alpha1.punctual.dev"),
            ] {
                let parsed = Target::parse(&format!("{word}/a.b-1"), &[kind]).unwrap();
                assert_eq!((parsed.kind, parsed.name.as_str()), (kind, "a.b-1"), "{word}");
                assert_eq!(parsed.to_string(), format!("{short}/a.b-1"));
            }
            assert_eq!(Target::parse(kind.example(), &[kind]).unwrap().kind, kind);
        }
    }

    #[test]
    fn what_names_no_object_is_refused_with_an_example() {
        let wanted = [TargetKind::MaintenanceOccurrence, TargetKind::ReportJob];
        for (text, problem) in [
            ("nightly", "does not say which kind"),
            ("", "does not say which kind"),
            ("cronjob/x", "names no kind"),
            ("rqueue/reports", "is a ReportQueue"),
            ("mocc/", "no name"),
            ("mocc/a/b", "no name"),
            ("mocc/../secrets", "no name"),
            ("mocc/a?watch=1", "no name"),
            ("mocc/Upper", "no name"),
            ("mocc/-a", "no name"),
        ] {
            let refused = Target::parse(text, &wanted).unwrap_err();
            assert!(matches!(refused, CliError::BadUsage(_)), "{text}");
            let said = refused.to_string();
            assert!(said.contains(problem), "{text}: {said}");
            assert!(said.contains("mocc/nightly-retention-") && said.contains("rjob/"), "{said}");
        }
    }

    async fn read_error(fake: &FakeApi) -> String {
        let person = Person::single(&fake.client(), "docs");
        read::<MaintenanceSchedule>(&person, "nightly").await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_named() {
        let fake = FakeApi::new();
        let none = read_error(&fake).await;
        assert!(none.starts_with("there is no MaintenanceSchedule \"nightly\""), "{none}");
        for path in ["nightly", "v1alpha1"] {
            fake.fault(Method::GET, path, Fault::Refuse(404, "NotFound"));
        }
        let missing = read_error(&fake).await;
        assert!(missing.contains("does not know the kind MaintenanceSchedule"), "{missing}");
        assert!(missing.contains("punctual crds"), "{missing}");
        fake.put(
            "/apis/punctual.dev/v1alpha1/namespaces/docs/maintenanceschedules",
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
                "metadata": {"name": "nightly"}, "spec": {"schedule": 7},
            }),
        );
        let wrong = read_error(&fake).await;
        let named =
            "MaintenanceSchedule \"nightly\" in namespace \"docs\" cannot be read; correct it:";
        assert!(wrong.starts_with(named), "{wrong}");
        fake.fault(Method::GET, "nightly", Fault::Refuse(503, "ServiceUnavailable"));
        assert!(read_error(&fake).await.contains("cannot answer (503)"));
    }
}
