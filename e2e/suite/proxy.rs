//! The proxy holds, loses, delays and cuts, and lets everything else through.

use std::time::Duration;

use futures::TryStreamExt as _;
use hyper::{Method, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use crate::bed::{
    plan::scenario,
    proxy::{Proxy, Which},
    scenario::{Scenario, ok},
};

const SOON: Duration = Duration::from_secs(20);
/// Long enough for an answer that is not held, on a busy machine; nothing is decided by its end
/// but that a held one is still held.
const A_WHILE: Duration = Duration::from_millis(500);

/// A client with the rights of the scenario's namespace's account, through the proxy.
async fn client(s: &Scenario, proxy: &Proxy) -> Api<ConfigMap> {
    let rights = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "maps"},
         "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "maps"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
         "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": s.namespace}]},
    ]});
    s.apply(&rights.to_string()).await;
    let token = ok(s.kubectl().run(&["create", "token", "default"]).await);
    let client = ok(s.client_of_token("default", &proxy.server(), token.trim()).await);
    Api::namespaced(client, &s.namespace)
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap()
}

fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[test]
fn a_held_write_is_refused_if_somebody_else_wrote_meanwhile() {
    scenario().run(async |s| {
        let proxy = s.proxy().await;
        let maps = client(s, &proxy).await;
        let first = maps.create(&PostParams::default(), &map("held", "first")).await.unwrap();
        let held = proxy.hold(Which::on(Method::PUT, "/configmaps/held"), 1);
        let mut mine = first.clone();
        mine.data = map("held", "mine").data;
        let write =
            tokio::spawn(async move { maps.replace("held", &PostParams::default(), &mine).await });
        let seen = held.reached(SOON).await.unwrap();
        assert_eq!(seen.body["data"]["value"], "mine");
        // The sender dies; what it has sent stays on its way.
        write.abort();
        let mut theirs = first;
        theirs.data = map("held", "theirs").data;
        let direct: Api<ConfigMap> = Api::namespaced(s.client(), &s.namespace);
        direct.replace("held", &PostParams::default(), &theirs).await.unwrap();
        assert!(held.answer(A_WHILE).await.is_err(), "it must not be sent before it is released");
        held.release();
        let answer = held.answer(SOON).await.unwrap();
        assert_eq!(
            (answer.status, &answer.body["reason"]),
            (StatusCode::CONFLICT, &json!("Conflict"))
        );
        let now = direct.get("held").await.unwrap();
        assert_eq!(now.data.unwrap()["value"], "theirs");
        assert_eq!(proxy.writes().last().unwrap().1, Some(StatusCode::CONFLICT));
    });
}

#[test]
fn the_nth_write_is_held_and_its_answer_too() {
    scenario().run(async |s| {
        let proxy = s.proxy().await;
        let maps = client(s, &proxy).await;
        let second = proxy.hold_answer(Which::on(Method::POST, "/configmaps"), 2);
        maps.create(&PostParams::default(), &map("one", "1")).await.unwrap();
        let other = maps.clone();
        let write =
            tokio::spawn(
                async move { other.create(&PostParams::default(), &map("two", "2")).await },
            );
        assert_eq!(second.reached(SOON).await.unwrap().body["metadata"]["name"], "two");
        assert!(s.get("configmap", "two").await.is_some(), "it is committed");
        assert!(!write.is_finished(), "its sender has no answer");
        second.release();
        write.await.unwrap().unwrap();
        maps.delete("two", &DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn an_answer_is_lost_and_traffic_is_cut_after_the_commit() {
    scenario().run(async |s| {
        let proxy = s.proxy().await;
        let maps = client(s, &proxy).await;
        let lost = proxy.drop_answer(Which::decisions(), 1);
        let error = maps.create(&PostParams::default(), &map("lost", "1")).await.unwrap_err();
        assert_eq!(status(&error), None, "no answer, not a refusal: {error}");
        assert_eq!(lost.answer(SOON).await.unwrap().status, StatusCode::CREATED);
        assert!(s.get("configmap", "lost").await.is_some());
        proxy.cut_after(Which::decisions(), 1);
        maps.create(&PostParams::default(), &map("last", "1")).await.unwrap_err();
        assert!(s.get("configmap", "last").await.is_some());
        maps.get("last").await.unwrap_err();
        proxy.resume();
        maps.get("last").await.unwrap();
        proxy.cut();
        maps.get("last").await.unwrap_err();
    });
}

#[test]
fn a_watch_passes_stands_still_in_a_blackhole_and_goes_on() {
    scenario().run(async |s| {
        let proxy = s.proxy().await;
        let maps = client(s, &proxy).await;
        let direct: Api<ConfigMap> = Api::namespaced(s.client(), &s.namespace);
        let only = WatchParams::default().fields("metadata.name=watched").disable_bookmarks();
        let mut events = Box::pin(maps.watch(&only, "0").await.unwrap());
        direct.create(&PostParams::default(), &map("watched", "1")).await.unwrap();
        let event = tokio::time::timeout(SOON, events.try_next()).await.unwrap().unwrap();
        assert!(matches!(event, Some(WatchEvent::Added(_))), "{event:?}");
        proxy.blackhole();
        direct.delete("watched", &DeleteParams::default()).await.unwrap();
        assert!(tokio::time::timeout(A_WHILE, events.try_next()).await.is_err());
        assert!(tokio::time::timeout(A_WHILE, maps.get("watched")).await.is_err());
        proxy.resume();
        let event = tokio::time::timeout(SOON, events.try_next()).await.unwrap().unwrap();
        assert!(matches!(event, Some(WatchEvent::Deleted(_))), "{event:?}");
        let before = tokio::time::Instant::now();
        proxy.delay(A_WHILE);
        assert_eq!(status(&maps.get("watched").await.unwrap_err()), Some(404));
        assert!(before.elapsed() >= A_WHILE);
    });
}
