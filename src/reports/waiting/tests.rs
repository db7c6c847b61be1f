use super::*;
use crate::sim::rng::Rng;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

fn job(name: &str, tenant: &str, priority: i32, created: i64) -> WaitingJob {
    WaitingJob {
        name: name.into(),
        uid: format!("uid-{name}"),
        tenant: tenant.into(),
        priority,
        created: at(created),
        attempt: 1,
        charge: 1_000,
        retry: false,
        not_before: None,
        scheduled: false,
    }
}

/// Names in the order of a tenant's queue.
fn queue(waiting: &Waiting, tenant: &str, class: Class) -> Vec<String> {
    let id = waiting.tenant_id(tenant).unwrap();
    (0..).map_while(|place| waiting.at(id, class, place)).map(|job| job.name.to_string()).collect()
}

/// Tenants in the order of their first jobs.
fn tenants(waiting: &Waiting, class: Class) -> Vec<String> {
    waiting.heads(class).iter().map(|head| waiting.tenant(head.2).to_string()).collect()
}

#[test]
fn a_tenant_goes_by_priority_age_and_name() {
    let mut waiting = Waiting::new();
    for (name, priority, created) in
        [("c", 0, 2_000), ("b", 0, 1_000), ("a", 0, 2_000), ("d", 5, 9_000), ("e", -1, 0)]
    {
        waiting.upsert(&job(name, "t", priority, created));
    }
    assert_eq!(queue(&waiting, "t", Class::First), ["d", "b", "a", "c", "e"]);
    waiting.upsert(&job("x", "u", 0, 5_000));
    assert_eq!(tenants(&waiting, Class::First), ["u", "t"], "t's first job is younger");
    assert!(waiting.remove("d", "uid-d"));
    assert_eq!(tenants(&waiting, Class::First), ["t", "u"]);
}

#[test]
fn the_same_again_changes_nothing_and_another_of_the_name_takes_its_place() {
    let mut waiting = Waiting::new();
    let first = job("a", "t", 0, 0);
    waiting.upsert(&first);
    let once = format!("{waiting:?}");
    waiting.upsert(&first);
    assert_eq!(format!("{waiting:?}"), once);
    let other = WaitingJob { uid: "other".into(), tenant: "u".into(), ..first };
    waiting.upsert(&other);
    assert_eq!((waiting.len(), waiting.len_of("t"), waiting.len_of("u")), (1, 0, 1));
    assert!(!waiting.remove("a", "uid-a"), "that one is gone");
    assert!(waiting.remove("a", "other") && waiting.is_empty());
    assert_eq!((waiting.tenants(), waiting.charge(Class::First)), (0, 0));
}

#[test]
fn one_of_each_schedule_is_not_counted() {
    let mut waiting = Waiting::new();
    let scheduled =
        |name: &str, tenant: &str| WaitingJob { scheduled: true, ..job(name, tenant, 0, 0) };
    waiting.upsert(&scheduled("daily-202611290200", "t"));
    assert_eq!((waiting.len(), waiting.counted(), waiting.counted_of("t")), (1, 0, 0));
    assert!(waiting.has_of_schedule("t", "daily") && !waiting.has_of_schedule("t", "weekly"));
    waiting.upsert(&scheduled("daily-202611300200", "t"));
    waiting.upsert(&scheduled("weekly-202611300200", "t"));
    waiting.upsert(&job("mine", "t", 0, 0));
    assert_eq!((waiting.len(), waiting.counted(), waiting.counted_of("t")), (4, 2, 2));
    assert!(waiting.remove("daily-202611290200", "uid-daily-202611290200"));
    assert_eq!((waiting.counted(), waiting.counted_of("t")), (1, 1));
    assert!(waiting.remove("daily-202611300200", "uid-daily-202611300200"));
    assert!(!waiting.has_of_schedule("t", "daily"));
    assert_eq!((waiting.len(), waiting.counted()), (2, 1));
}

#[test]
fn however_it_came_about_the_index_is_that_of_its_jobs() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (mut waiting, mut jobs) = (Waiting::new(), BTreeMap::new());
        for step in 0..40 {
            let name = format!("j{}", rng.of(0..=15));
            let retry = rng.chance(40);
            let new = WaitingJob {
                uid: format!("uid-{}", rng.of(0..=1)),
                attempt: 1 + i32::from(retry),
                charge: i64::try_from(rng.of(1..=3)).unwrap(),
                retry,
                not_before: retry.then(|| at(i64::try_from(rng.of(1..=9)).unwrap())),
                ..job(
                    &name,
                    &format!("t{}", rng.of(0..=3)),
                    i32::try_from(rng.of(0..=2)).unwrap(),
                    i64::try_from(rng.of(0..=3)).unwrap() * 1_000,
                )
            };
            if rng.chance(70) {
                waiting.upsert(&new);
                jobs.insert(name, new);
            } else {
                let removed = waiting.remove(&name, &new.uid);
                let known = jobs.get(&name).is_some_and(|job| job.uid == new.uid);
                assert_eq!(removed, known);
                if known {
                    jobs.remove(&name);
                }
            }
            if rng.chance(20) {
                waiting.advance(at(i64::try_from(rng.of(0..=9)).unwrap()));
            }
            if step % 5 > 0 {
                continue;
            }
            let mut anew = Waiting::new();
            anew.advance(at(waiting.advanced));
            jobs.values().rev().for_each(|job| anew.upsert(job));
            assert_eq!(view(&waiting), view(&anew), "seed {seed}");
        }
    }
}

/// Everything that can be seen of the index.
fn view(waiting: &Waiting) -> impl PartialEq + std::fmt::Debug {
    let mut names: Vec<&str> = waiting.tenant_ids.keys().map(|name| &**name).collect();
    names.sort_unstable();
    let of_class = |class: Class| {
        let heads: Vec<(i64, Arc<str>)> =
            waiting.heads(class).iter().map(|head| (head.0, Arc::clone(&head.1))).collect();
        let queues: Vec<Vec<String>> =
            names.iter().map(|name| queue(waiting, name, class)).collect();
        (heads, queues, waiting.charge(class))
    };
    let lens: Vec<(String, usize, usize)> = names
        .iter()
        .map(|name| (name.to_string(), waiting.len_of(name), waiting.counted_of(name)))
        .collect();
    (
        Class::ALL.map(of_class),
        lens,
        (waiting.len(), waiting.counted(), waiting.largest_charge()),
        (waiting.next_due(), waiting.last_due()),
    )
}
