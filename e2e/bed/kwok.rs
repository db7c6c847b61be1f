//! Fake nodes: pods on them run, finish, fail and hang as their annotations say.

use std::time::Duration;

use kube::api::PostParams;
use serde_json::{Value, json};

use super::{
    Bed,
    control_plane::FAKE_NODE,
    error::{BedError, Context as _, Result},
    objects, wait,
};

/// The node of the shared cluster.
pub const NODE: &str = "fake";
/// Label and taint that keep a test's own node to itself.
pub const OWN_NODE: &str = "play/own-node";
/// kwok marks a node ready in tens of milliseconds; slack for a busy machine.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// Adds a fake node. With `only_for`, only pods with [`placement`] of that value run on it.
pub async fn add_node(bed: &Bed, name: &str, only_for: Option<&str>) -> Result<()> {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE.0: FAKE_NODE.1},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        "spec": {},
        "status": {
            "capacity": {"cpu": "10000", "memory": "100Ti", "pods": "100000"},
            "allocatable": {"cpu": "10000", "memory": "100Ti", "pods": "100000"},
        },
    });
    if let Some(value) = only_for {
        node["metadata"]["labels"][OWN_NODE] = json!(value);
        node["spec"]["taints"] = json!([{"key": OWN_NODE, "value": value, "effect": "NoSchedule"}]);
    }
    let node = serde_json::from_value(node).context(|| "make a node".to_owned())?;
    objects::api(&bed.client, "", "node")
        .create(&PostParams::default(), &node)
        .await
        .context(|| format!("create node {name}"))?;
    Ok(())
}

/// What a pod's `spec` needs to run on the node that was added `only_for` this value, and nowhere else.
pub fn placement(value: &str) -> Value {
    json!({
        "nodeSelector": {OWN_NODE: value},
        "tolerations": [{"key": OWN_NODE, "operator": "Equal", "value": value, "effect": "NoSchedule"}],
    })
}

/// Waits until kwok has made the node ready.
pub async fn node_ready(bed: &Bed, name: &str) -> Result<()> {
    let nodes = objects::api(&bed.client, "", "node");
    wait::until("the fake node is ready", READY_DEADLINE, || async {
        let node = objects::json(&nodes.get(name).await.context(|| format!("read node {name}"))?);
        let ready = node["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
        if ready { Ok(()) } else { Err(BedError("not ready yet".to_owned())) }
    })
    .await
}
