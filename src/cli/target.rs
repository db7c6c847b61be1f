//! What commands that act on a cluster share: the connection, `KIND/NAME`, and the output format.

use serde::Serialize;

use super::CliError;
use crate::{
    cluster::{ApiError, Object, ObjectKey, Person, kind_of},
    schedules::Kind,
    yaml,
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
        Person::connect(self.context.as_deref(), namespace).await.map_err(api_error)
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

impl Output {
    /// Prints `value`, or calls `table` for people.
    pub fn print<T: Serialize>(self, value: &T, table: impl FnOnce()) -> Result<(), CliError> {
        let failed = |error: String| CliError::Failed(format!("cannot print the answer: {error}"));
        match self {
            Self::Table => table(),
            Self::Json => {
                println!(
                    "{}",
                    serde_json::to_string_pretty(value).map_err(|e| failed(e.to_string()))?
                );
            }
            Self::Yaml => print!("{}", yaml::to_string(value).map_err(|e| failed(e.to_string()))?),
        }
        Ok(())
    }
}

/// Names of a kind on the command line.
const SCHEDULE_NAMES: [&str; 4] =
    ["msched", "maintenanceschedule", "maintenanceschedules", "maintenanceschedules.punctual.dev"];
/// The same of report schedules.
const REPORT_SCHEDULE_NAMES: [&str; 4] =
    ["rsched", "reportschedule", "reportschedules", "reportschedules.punctual.dev"];

/// The name in `KIND/NAME`, if the kind has one of these names.
fn name_of<'a>(target: &'a str, kinds: &[&str]) -> Option<&'a str> {
    target
        .split_once('/')
        .filter(|(kind, _)| kinds.contains(&kind.to_ascii_lowercase().as_str()))
        .map(|(_, name)| name)
        .filter(|name| !name.is_empty() && !name.contains('/'))
}

/// The name in `rsched/NAME`.
pub fn report_schedule_name(target: &str) -> Option<&str> {
    name_of(target, &REPORT_SCHEDULE_NAMES)
}

/// The name in `msched/NAME`.
pub fn schedule_name(target: &str) -> Result<&str, CliError> {
    name_of(target, &SCHEDULE_NAMES).ok_or_else(|| {
        CliError::BadUsage(format!(
            "{target:?} names no schedule; write it like msched/nightly-retention"
        ))
    })
}

/// What went wrong with the cluster, for a person.
pub fn api_error(error: ApiError) -> CliError {
    match error {
        ApiError::Invalid { message } => CliError::BadUsage(message),
        error => CliError::Failed(error.to_string()),
    }
}

/// What went wrong with reading one object, for a person.
fn read_error(kind: &str, key: &ObjectKey, error: ApiError) -> CliError {
    match error {
        ApiError::Malformed { message } => CliError::Failed(format!(
            "{kind} {:?} in namespace {:?} cannot be read; correct it: {message}",
            key.name, key.namespace
        )),
        error => api_error(error),
    }
}

/// The schedule with this name, if there is one.
pub async fn find_schedule<S: Kind + Object>(
    person: &Person,
    name: &str,
) -> Result<Option<S>, CliError> {
    let key = ObjectKey::new(person.namespace(), name);
    person.reader().get(&key).await.map_err(|error| read_error(kind_of::<S>(), &key, error))
}

/// The schedule with this name.
pub async fn read_schedule<S: Kind + Object>(person: &Person, name: &str) -> Result<S, CliError> {
    let found = find_schedule(person, name).await?;
    found.ok_or_else(|| not_found(kind_of::<S>(), &ObjectKey::new(person.namespace(), name)))
}

/// There is no such object.
fn not_found(kind: &str, key: &ObjectKey) -> CliError {
    CliError::Failed(format!("there is no {kind} {:?} in namespace {:?}", key.name, key.namespace))
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
    use super::*;

    #[test]
    fn schedules_are_named_with_their_kind() {
        assert_eq!(schedule_name("msched/nightly").unwrap(), "nightly");
        assert_eq!(schedule_name("MaintenanceSchedule/nightly").unwrap(), "nightly");
        assert_eq!(report_schedule_name("rsched/monthly"), Some("monthly"));
        for wrong in ["nightly", "mocc/nightly", "msched/", "rsched/", "msched/a/b", ""] {
            assert!(matches!(schedule_name(wrong), Err(CliError::BadUsage(_))), "{wrong}");
            assert_eq!(report_schedule_name(wrong), None, "{wrong}");
        }
        assert!(
            schedule_name("rsched/monthly").is_err() && report_schedule_name("msched/n").is_none()
        );
    }

    #[test]
    fn an_object_that_cannot_be_read_is_named() {
        let key = ObjectKey::new("docs", "nightly");
        let wrong = ApiError::Malformed { message: "bad offset".into() };
        assert_eq!(
            read_error("MaintenanceSchedule", &key, wrong).to_string(),
            "MaintenanceSchedule \"nightly\" in namespace \"docs\" cannot be read; correct it: bad offset"
        );
        let other = read_error("MaintenanceSchedule", &key, ApiError::NotFound).to_string();
        assert_eq!(other, api_error(ApiError::NotFound).to_string());
    }
}
