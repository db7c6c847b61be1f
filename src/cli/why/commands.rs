//! The lines that people are told to type.

use crate::api::ResolutionDecision;

/// What is asked about, as commands name it.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Target {
    /// `KIND/NAME`.
    pub(super) object: String,
    /// Its namespace.
    pub(super) namespace: String,
}

impl Target {
    /// `KIND/NAME` in a namespace.
    pub(in crate::cli) fn new(object: impl Into<String>, namespace: &str) -> Self {
        Self { object: object.into(), namespace: namespace.to_owned() }
    }

    fn at(&self) -> String {
        format!("{} -n {}", self.object, self.namespace)
    }

    /// Cancels it.
    pub(super) fn cancel(&self) -> String {
        format!("kubectl punctual cancel {}", self.at())
    }

    /// Decides how an attempt ended.
    pub(super) fn resolve(
        &self,
        decision: ResolutionDecision,
        attempt: i32,
        accept: bool,
    ) -> String {
        let accept = if accept { " --accept-duplicate" } else { "" };
        format!(
            "kubectl punctual resolve {} --attempt {attempt} --decision {decision:?}{accept} --reason \"HOW YOU KNOW\"",
            self.at()
        )
    }

    /// Creates a rejected report again.
    pub(super) fn resubmit(&self) -> String {
        format!("kubectl punctual resubmit {}", self.at())
    }

    /// Shows what it printed.
    pub(super) fn logs(&self) -> String {
        format!("kubectl punctual logs {}", self.at())
    }

    /// Asks why it is as it is.
    pub(in crate::cli) fn why(&self) -> String {
        format!("kubectl punctual why {}", self.at())
    }

    /// Runs an instant of a schedule by hand; without one the present minute.
    pub(super) fn trigger(&self, at: Option<crate::time::IntendedTime>) -> String {
        let at = at.map(|at| format!(" --at {at}")).unwrap_or_default();
        format!("kubectl punctual trigger {}{at}", self.at())
    }

    /// Lets a schedule or a queue go on.
    pub(super) fn resume(&self) -> String {
        format!("kubectl punctual resume {}", self.at())
    }

    /// Changes its spec in an editor.
    pub(super) fn edit(&self) -> String {
        format!("kubectl edit {}", self.at())
    }

    /// Shows it whole.
    pub(super) fn show(&self) -> String {
        format!("kubectl get {} -o yaml", self.at())
    }
}
