//! Explores a model and says what it found.

use std::{fmt::Debug, hash::Hash, time::Instant};

use stateright::{Checker as _, HasDiscoveries, Model, Property};

/// Chooses the larger bounds.
const BOUNDS: &str = "PUNCTUAL_MODEL_BOUNDS";
/// Threads of one exploration. The test bench runs several tests at once besides.
const THREADS: usize = 2;

/// The bound for every run, or the larger one for a run by hand.
pub(crate) fn bound<T>(usual: T, large: T) -> T {
    match std::env::var(BOUNDS).as_deref() {
        Ok("large") => large,
        Ok(other) => panic!("{BOUNDS} is {other:?}; the only other bounds are \"large\""),
        Err(_) => usual,
    }
}

/// A model whose state carries what went wrong on the way to it.
pub(crate) trait Truth:
    Model<State: Clone + Debug + Hash + PartialEq + Send + Sync>
{
    /// What went wrong, if anything did.
    fn wrong(state: &Self::State) -> Option<&'static str>;
}

/// The property of every model: nothing went wrong.
pub(crate) fn nothing_wrong<M: Truth>() -> Property<M> {
    Property::always("nothing goes wrong", |_: &M, state: &M::State| M::wrong(state).is_none())
}

/// Visits every state: nothing goes wrong in any, and each `sometimes` happens in one, because a
/// protocol that does nothing is safe too.
#[track_caller]
pub(crate) fn must_hold<M>(what: &str, model: M)
where
    M: Truth + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
    M::State: 'static,
{
    let begun = Instant::now();
    let wanted: Vec<&str> = model.properties().iter().map(|property| property.name).collect();
    let checker = model.checker().threads(THREADS).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{what}: {states} states, depth {depth}, {:.1} s", begun.elapsed().as_secs_f64());
    for (name, path) in checker.discoveries() {
        if let Some(wrong) = M::wrong(path.last_state()) {
            let actions: Vec<String> =
                path.into_actions().iter().map(|action| format!("    {action:?}\n")).collect();
            panic!("{what}: {name}: {wrong}\n{}", actions.concat());
        }
    }
    for name in wanted.iter().skip(1) {
        assert!(checker.discovery(name).is_some(), "{what}: never: {name}");
    }
    assert!(checker.is_done(), "{what}: not every state was visited");
}

/// Searches for a violation; gives what went wrong. The shortest history that leads to it is printed.
#[track_caller]
pub(crate) fn must_fail<M>(what: &str, model: M) -> &'static str
where
    M: Truth + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
    M::State: 'static,
{
    let begun = Instant::now();
    let name = model.properties()[0].name;
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyOf([name].into()))
        .spawn_bfs()
        .join();
    let states = checker.unique_state_count();
    let Some(path) = checker.discovery(name) else {
        panic!(
            "{what}: no violation in {states} states; the model does not notice what is missing"
        );
    };
    let wrong = M::wrong(path.last_state()).expect("the property is about what went wrong");
    let seconds = begun.elapsed().as_secs_f64();
    println!("{what}: {wrong}, after {states} states, {seconds:.1} s");
    for action in path.into_actions() {
        println!("    {action:?}");
    }
    wrong
}
