//! The kinds that the model serves, and how an object of them is named.

use std::fmt;

/// A kind of the model. Everything the operator talks about, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// coordination.k8s.io/v1
    Lease,
    /// apiextensions.k8s.io/v1
    CustomResourceDefinition,
    /// events.k8s.io/v1
    Event,
    /// v1
    Namespace,
    /// v1
    Node,
    /// v1
    Pod,
    /// batch/v1
    Job,
    /// punctual.dev/v1alpha1
    MaintenanceSchedule,
    /// punctual.dev/v1alpha1
    MaintenanceOccurrence,
    /// punctual.dev/v1alpha1
    RecoveryTrace,
    /// punctual.dev/v1alpha1
    ReportQueue,
    /// punctual.dev/v1alpha1
    ReportJob,
    /// punctual.dev/v1alpha1
    ReportSchedule,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Lease,
        Self::CustomResourceDefinition,
        Self::Event,
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Job,
        Self::MaintenanceSchedule,
        Self::MaintenanceOccurrence,
        Self::RecoveryTrace,
        Self::ReportQueue,
        Self::ReportJob,
        Self::ReportSchedule,
    ];

    /// API group; empty for the core group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Lease => "coordination.k8s.io",
            Self::CustomResourceDefinition => "apiextensions.k8s.io",
            Self::Event => "events.k8s.io",
            Self::Namespace | Self::Node | Self::Pod => "",
            Self::Job => "batch",
            Self::MaintenanceSchedule
            | Self::MaintenanceOccurrence
            | Self::RecoveryTrace
            | Self::ReportQueue
            | Self::ReportJob
            | Self::ReportSchedule => crate::api::GROUP,
        }
    }

    /// Served version.
    pub const fn version(self) -> &'static str {
        match self {
            Self::MaintenanceSchedule
            | Self::MaintenanceOccurrence
            | Self::RecoveryTrace
            | Self::ReportQueue
            | Self::ReportJob
            | Self::ReportSchedule => crate::api::VERSION,
            _ => "v1",
        }
    }

    /// `kind` of its objects.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::CustomResourceDefinition => "CustomResourceDefinition",
            Self::Event => "Event",
            Self::Namespace => "Namespace",
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Job => "Job",
            Self::MaintenanceSchedule => "MaintenanceSchedule",
            Self::MaintenanceOccurrence => "MaintenanceOccurrence",
            Self::RecoveryTrace => "RecoveryTrace",
            Self::ReportQueue => "ReportQueue",
            Self::ReportJob => "ReportJob",
            Self::ReportSchedule => "ReportSchedule",
        }
    }

    /// The plural in paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Lease => "leases",
            Self::CustomResourceDefinition => "customresourcedefinitions",
            Self::Event => "events",
            Self::Namespace => "namespaces",
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Job => "jobs",
            Self::MaintenanceSchedule => "maintenanceschedules",
            Self::MaintenanceOccurrence => "maintenanceoccurrences",
            Self::RecoveryTrace => "recoverytraces",
            Self::ReportQueue => "reportqueues",
            Self::ReportJob => "reportjobs",
            Self::ReportSchedule => "reportschedules",
        }
    }

    /// The short name that people and scenario files use.
    pub const fn short(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::CustomResourceDefinition => "crd",
            Self::Event => "event",
            Self::Namespace => "ns",
            Self::Node => "node",
            Self::Pod => "pod",
            Self::Job => "job",
            Self::MaintenanceSchedule => "msched",
            Self::MaintenanceOccurrence => "mocc",
            Self::RecoveryTrace => "rtrace",
            Self::ReportQueue => "rqueue",
            Self::ReportJob => "rjob",
            Self::ReportSchedule => "rsched",
        }
    }

    /// Whether its objects live in a namespace.
    pub const fn namespaced(self) -> bool {
        !matches!(self, Self::CustomResourceDefinition | Self::Namespace | Self::Node)
    }

    /// The kind with this `kind`, plural or short name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| [kind.name(), kind.plural(), kind.short()].contains(&name))
    }
}

/// What an object is called in the whole model. Cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// A key from its parts; the namespace of a cluster-scoped kind is dropped.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let namespace = if kind.namespaced() { namespace.into() } else { String::new() };
        Self { kind, namespace, name: name.into() }
    }
}

impl fmt::Display for Key {
    /// As scenario files write it: `mocc/nightly-202611290200`, `other/mocc/x` outside `default`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() && self.namespace != "default" {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}/{}", self.kind.short(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_kind_finds_it_and_no_two_share_one() {
        for kind in Kind::ALL {
            for name in [kind.name(), kind.plural(), kind.short()] {
                assert_eq!(Kind::named(name), Some(kind), "{name}");
            }
        }
        assert_eq!(Kind::named("cronjob"), None);
    }

    #[test]
    fn keys_are_written_as_scenario_files_write_them() {
        let of = |namespace| Key::new(Kind::MaintenanceOccurrence, namespace, "x").to_string();
        assert_eq!(of("default"), "mocc/x");
        assert_eq!(of("other"), "other/mocc/x");
        assert_eq!(Key::new(Kind::Node, "default", "n").to_string(), "node/n");
    }
}
