//! What goes wrong between a command and the cluster, in sentences that name the fix.

use super::{CliError, target::api_error};
use crate::cluster::{ApiError, Object, Person};

/// Where the rights of every command are listed.
const RIGHTS: &str = "docs/reference/commands.md lists the rights of every command";

/// A call of the API server, as its rights name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb of the right.
    verb: &'static str,
    /// The resource with its group, or with its subresource.
    resource: String,
    /// The namespace it is about; without one, all of them.
    namespace: Option<String>,
    /// The address of the API server.
    server: String,
}

impl Call {
    /// A call about objects of a kind in the namespace in force.
    pub fn of<K: Object>(verb: &'static str, person: &Person) -> Self {
        let (plural, group) = (K::plural(&()), K::group(&()));
        let resource = if group.is_empty() { plural.into() } else { format!("{plural}.{group}") };
        Self {
            verb,
            resource,
            namespace: Some(person.namespace().to_owned()),
            server: person.server().to_owned(),
        }
    }

    /// The same about a subresource.
    #[must_use]
    pub fn about(self, subresource: &str) -> Self {
        Self { resource: format!("{}/{subresource}", self.resource), ..self }
    }

    /// The same in a namespace, or with `None` in all of them.
    #[must_use]
    pub fn within(self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(ToOwned::to_owned), ..self }
    }

    /// What a person is told when it ends with this error.
    pub fn failed(&self, error: ApiError) -> CliError {
        let Self { verb, resource, server, .. } = self;
        CliError::Failed(match error {
            ApiError::Forbidden { message } if is_missing_right(&message) => format!(
                "{}: ask for a role with this right; {RIGHTS} ({message})",
                self.may_not(&message)
            ),
            ApiError::Forbidden { message } if message.contains("Unauthorized") => format!(
                "the API server at {server} does not accept your credentials: log in again, or \
                 choose another context with --context"
            ),
            ApiError::Forbidden { message } => {
                format!("the API server does not let you {verb} {resource}: {message}")
            }
            ApiError::OutcomeUnknown { message } => format!(
                "no answer from the cluster at {server}: is it up, and is it the one you mean \
                 (`kubectl config get-contexts`, --context)? {message}"
            ),
            ApiError::TooManyRequests { retry_after_secs } => {
                let secs = retry_after_secs.unwrap_or(1);
                format!("the API server is busy: try again in {secs} s")
            }
            error => return api_error(error),
        })
    }

    /// What a person is told whose answer is given without what this call would have brought.
    pub fn left_out(&self, error: &ApiError) -> String {
        match error {
            ApiError::Forbidden { message } if is_missing_right(message) => self.may_not(message),
            ApiError::NotFound => {
                format!("{}: the kind is not installed", self.resource)
            }
            error => format!("cannot {} {} {}: {error}", self.verb, self.resource, self.place()),
        }
    }

    fn may_not(&self, message: &str) -> String {
        // One call may take several requests: the server says which was refused.
        let asked = message.split(" cannot ").nth(1).and_then(|rest| rest.split(' ').next());
        let verb = asked.unwrap_or(self.verb);
        format!("you may not {verb} {} {}", self.resource, self.place())
    }

    fn place(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("in namespace {namespace:?}"),
            None => "in all namespaces".to_owned(),
        }
    }
}

/// Whether a refusal is for want of a right, as the API server words it.
fn is_missing_right(message: &str) -> bool {
    message.contains(" cannot ")
}

/// What a person is told who cannot be connected at all.
pub fn not_connected(error: &ApiError) -> CliError {
    CliError::Failed(format!(
        "{error}; check KUBECONFIG, which names the file with your clusters: `kubectl config \
         get-contexts` lists them, --context chooses one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::ReportJob,
        cluster::{Person, fake::FakeApi},
    };

    fn call() -> Call {
        Call::of::<ReportJob>("patch", &Person::single(&FakeApi::new().client(), "shop"))
    }

    #[tokio::test]
    async fn a_missing_right_is_named_with_verb_resource_and_namespace() {
        let refused = ApiError::Forbidden {
            message: "reportjobs.punctual.dev \"a\" is forbidden: User \"u\" cannot patch resource"
                .to_owned(),
        };
        let said = call().failed(refused.clone()).to_string();
        let wanted = "you may not patch reportjobs.punctual.dev in namespace \"shop\"";
        assert!(said.starts_with(wanted), "{said}");
        let said = call().about("status").within(None).failed(refused).to_string();
        let wanted = "you may not patch reportjobs.punctual.dev/status in all namespaces";
        assert!(said.starts_with(wanted), "{said}");
        // What exists is looked up after it could not be created.
        let look = ApiError::Forbidden { message: "User \"u\" cannot get resource".to_owned() };
        assert!(call().failed(look).to_string().starts_with("you may not get reportjobs"));
    }

    #[tokio::test]
    async fn an_answer_that_lacks_something_says_what_in_the_same_words() {
        let refused = ApiError::Forbidden { message: "User \"u\" cannot list resource".to_owned() };
        let list = Call { verb: "list", ..call() };
        let short = list.left_out(&refused);
        assert_eq!(short, "you may not list reportjobs.punctual.dev in namespace \"shop\"");
        assert!(list.failed(refused).to_string().starts_with(&short));
        let none = list.left_out(&ApiError::NotFound);
        assert_eq!(none, "reportjobs.punctual.dev: the kind is not installed");
        let silent = ApiError::OutcomeUnknown { message: "connection refused".to_owned() };
        let said = list.within(None).left_out(&silent);
        assert!(
            said.starts_with("cannot list reportjobs.punctual.dev in all namespaces"),
            "{said}"
        );
    }

    #[tokio::test]
    async fn other_refusals_are_not_taken_for_a_missing_right() {
        let says = |message: &str| {
            call().failed(ApiError::Forbidden { message: message.to_owned() }).to_string()
        };
        assert!(says("exceeded quota: count/reportjobs").ends_with("count/reportjobs"));
        assert!(says("Unauthorized").contains("log in again"));
    }

    #[tokio::test]
    async fn silence_names_the_server_and_the_way_to_another() {
        let silent = ApiError::OutcomeUnknown { message: "connection refused".to_owned() };
        let said = call().failed(silent).to_string();
        assert!(said.contains("https://api.example/") && said.contains("--context"), "{said}");
        let busy = ApiError::TooManyRequests { retry_after_secs: Some(7) };
        assert!(call().failed(busy).to_string().contains("7 s"));
        let invalid = ApiError::Invalid { message: "spec.cancel: no".to_owned() };
        assert!(matches!(call().failed(invalid), CliError::BadUsage(_)));
        let nowhere = ApiError::Unsendable { message: "no such context".to_owned() };
        assert!(not_connected(&nowhere).to_string().contains("get-contexts"));
    }
}
