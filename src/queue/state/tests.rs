//! The queue's rules, one by one and then all at once against a plain model.

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const NOW: Duration = Duration::ZERO;

/// Small letters are one flow, and each capital letter is one of its own.
impl Key for char {
    type Flow = Option<char>;

    fn flow(&self) -> Option<char> {
        self.is_uppercase().then_some(*self)
    }
}

/// A state and a clock that the test steps. Keys are letters; the jitter takes nothing away.
struct Bench {
    state: State<char>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { state: State::new(Backoff::default()), now: Instant::now() }
    }

    fn add(&mut self, key: char) {
        self.add_after(key, NOW, Wake::Changed);
    }

    fn add_after(&mut self, key: char, delay: Duration, wake: Wake) {
        self.state.add(key, delay, wake, self.now);
    }

    fn step(&mut self, time: Duration) {
        self.now += time;
    }

    fn take(&mut self) -> Option<Job<char>> {
        self.state.take(self.now)
    }

    fn taken(&mut self) -> char {
        self.take().expect("a key is due").key
    }

    fn done(&mut self, key: char, next: Next) {
        assert!(self.state.done(&key, next, self.now, 1.0), "{key} was in a pass");
    }

    fn drain(&mut self) -> String {
        std::iter::from_fn(|| self.take().map(|job| job.key)).collect()
    }

    /// How long until the next key is due.
    fn pause(&self) -> Option<Duration> {
        self.state.next_due().map(|due| due.saturating_duration_since(self.now))
    }
}

#[test]
fn first_in_first_out_and_each_key_once() {
    let mut bench = Bench::new();
    for key in "cabcacb".chars() {
        bench.add(key);
    }
    assert_eq!(bench.state.depth(bench.now), 3);
    assert_eq!(bench.drain(), "cab");
}

#[test]
fn a_key_added_during_its_pass_is_taken_again_after_it() {
    let mut bench = Bench::new();
    bench.add('a');
    assert_eq!(bench.taken(), 'a');
    bench.add('a');
    assert_eq!(bench.take(), None, "one pass at a time for a key");
    bench.step(5 * MS);
    bench.done('a', Next::Settled);
    let again = bench.take().expect("the wake-up is not lost");
    assert_eq!(again.queued, 5 * MS, "it was due when it was added");
    bench.done('a', Next::Settled);
    assert_eq!(bench.take(), None);
}

#[test]
fn a_key_woken_without_pause_stands_behind_those_who_waited() {
    let mut bench = Bench::new();
    bench.add('a');
    assert_eq!(bench.taken(), 'a');
    bench.add('a');
    bench.step(MS);
    bench.add('b');
    bench.step(MS);
    bench.done('a', Next::Settled);
    assert_eq!(bench.drain(), "ba");
}

#[test]
fn a_delayed_key_is_not_taken_before_its_time_and_then_in_its_turn() {
    let mut bench = Bench::new();
    bench.add_after('a', 10 * MS, Wake::Timer);
    bench.add_after('b', 5 * MS, Wake::Timer);
    assert_eq!((bench.state.depth(bench.now), bench.state.delayed(bench.now)), (0, 2));
    assert_eq!(bench.take(), None);
    bench.step(5 * MS);
    assert_eq!(bench.drain(), "b");
    bench.step(4 * MS);
    assert_eq!(bench.take(), None);
    bench.step(2 * MS);
    bench.add('c');
    let job = bench.take().expect("a fell due before c came");
    assert_eq!((job.key, job.wake, job.queued), ('a', Wake::Timer, MS));
}

#[test]
fn of_two_delays_the_earlier_wins() {
    let mut bench = Bench::new();
    bench.add_after('a', 10 * MS, Wake::Timer);
    bench.add_after('a', 20 * MS, Wake::Waited);
    assert_eq!(bench.pause(), Some(10 * MS));
    bench.add_after('a', 3 * MS, Wake::Waited);
    assert_eq!(bench.pause(), Some(3 * MS));
    bench.step(3 * MS);
    assert_eq!(bench.take().map(|job| job.wake), Some(Wake::Waited));
    bench.done('a', Next::Settled);
    assert_eq!(bench.pause(), None, "the later delay went with it");
}

#[test]
fn an_add_overrides_a_delay() {
    let mut bench = Bench::new();
    bench.add_after('a', 10 * MS, Wake::Timer);
    bench.add('a');
    let job = bench.take().expect("at once");
    assert_eq!((job.wake, job.queued), (Wake::Changed, NOW));
}

#[test]
fn of_a_delay_asked_for_during_a_pass_and_the_pass_s_own_the_earlier_wins() {
    for (asked, own, left) in [(5, 9, 5), (9, 5, 5)] {
        let mut bench = Bench::new();
        bench.add('a');
        bench.taken();
        bench.add_after('a', asked * MS, Wake::Waited);
        bench.done('a', Next::After(own * MS));
        assert_eq!(bench.pause(), Some(left * MS));
    }
}

#[test]
fn failures_in_a_row_pause_longer_and_a_success_forgets_them() {
    let mut bench = Bench::new();
    bench.add('a');
    for (attempt, pause) in [(1, 50), (2, 100), (3, 200), (4, 400)] {
        assert_eq!(bench.take().map(|job| job.attempt), Some(attempt));
        bench.done('a', Next::Retry);
        assert_eq!(bench.pause(), Some(pause * MS));
        bench.step(pause * MS);
    }
    let job = bench.take().expect("due");
    assert_eq!((job.attempt, job.wake), (5, Wake::Retry));
    bench.done('a', Next::After(MS));
    bench.step(MS);
    assert_eq!(bench.take().map(|job| job.attempt), Some(1));
    bench.done('a', Next::Retry);
    assert_eq!(bench.pause(), Some(50 * MS));
}

#[test]
fn an_event_during_a_back_off_is_served_at_once_and_keeps_the_failures() {
    let mut bench = Bench::new();
    bench.add('a');
    bench.taken();
    bench.done('a', Next::Retry);
    bench.add('a');
    let job = bench.take().expect("at once");
    assert_eq!((job.attempt, job.wake), (2, Wake::Changed));
    bench.done('a', Next::Retry);
    assert_eq!(bench.pause(), Some(100 * MS), "it failed twice in a row");
}

#[test]
fn again_is_at_once_the_first_time_and_pauses_when_repeated() {
    let mut bench = Bench::new();
    bench.add('a');
    for pause in [0, 100, 200] {
        bench.taken();
        bench.done('a', Next::Again);
        assert_eq!(bench.pause(), Some(pause * MS));
        bench.step(pause * MS);
    }
    bench.taken();
    bench.done('a', Next::Settled);
    bench.add('a');
    bench.taken();
    bench.done('a', Next::Again);
    assert_eq!(bench.pause(), Some(NOW), "the success between forgot the conflicts");
}

/// Keys of a hundred flows.
impl Key for u64 {
    type Flow = u64;

    fn flow(&self) -> u64 {
        self % 100
    }
}

#[test]
fn ten_thousand_settled_keys_leave_nothing() {
    let mut state = State::new(Backoff::default());
    let now = Instant::now();
    for key in 0..10_000 {
        state.add(key, Duration::from_secs(key % 7), Wake::Listed, now);
        state.add(key, NOW, Wake::Changed, now);
    }
    while let Some(job) = state.take(now) {
        state.done(&job.key, if job.attempt == 1 { Next::Again } else { Next::Settled }, now, 1.0);
    }
    assert!(state.slots.is_empty() && state.delayed.is_empty() && state.ready.is_empty());
}

#[test]
fn after_closing_nothing_is_taken_and_running_passes_may_end() {
    let mut bench = Bench::new();
    bench.add('a');
    bench.add('b');
    bench.taken();
    bench.state.close();
    bench.add('c');
    assert_eq!(bench.take(), None);
    bench.done('a', Next::Settled);
    assert_eq!(
        (bench.state.running(), bench.state.depth(bench.now)),
        (0, 1),
        "b is left, c was not taken in"
    );
}

#[test]
fn ending_a_pass_that_does_not_run_changes_nothing() {
    let mut bench = Bench::new();
    bench.add('a');
    for key in ['a', 'b'] {
        assert!(!bench.state.done(&key, Next::Retry, bench.now, 1.0));
    }
    assert_eq!(bench.drain(), "a");
}

#[test]
fn a_delay_without_end_is_only_a_long_one() {
    let mut bench = Bench::new();
    bench.add_after('a', Duration::MAX, Wake::Timer);
    assert_eq!(bench.take(), None);
    bench.add('a');
    assert_eq!(bench.drain(), "a");
}

/// One flow with many keys costs another no more than the pass that is taken before its own.
#[test]
fn flows_take_turns() {
    let mut bench = Bench::new();
    for key in "abcdefXgY".chars() {
        bench.add(key);
    }
    assert_eq!(bench.drain(), "aXYbcdefg");
}

/// A flow that comes back has its turn after those that waited, also when it fell due before them.
#[test]
fn a_flow_that_was_served_stands_behind_the_others() {
    let mut bench = Bench::new();
    bench.add_after('X', MS, Wake::Timer);
    bench.add('a');
    bench.add('b');
    assert_eq!(bench.taken(), 'a');
    bench.step(2 * MS);
    bench.add('Y');
    assert_eq!(bench.drain(), "bXY");
    assert_eq!(bench.state.depth(bench.now), 0);
}

/// Keys of three flows.
impl Key for u8 {
    type Flow = u8;

    fn flow(&self) -> u8 {
        self % 3
    }
}

/// What a queue has to know, kept in the plainest way: who wants a pass since when.
#[derive(Default)]
struct Model {
    /// The earliest wish of each key since it was last taken: (key, due, its turn, arrival).
    wishes: Vec<(u8, Instant, Instant, usize)>,
    /// The flows that had a key ready when somebody last looked, in the order of their turns.
    turns: Vec<u8>,
    running: Vec<u8>,
    failures: [u32; 6],
    arrivals: usize,
}

impl Model {
    fn wish(&mut self, key: u8, due: Instant, turn: Instant) {
        self.arrivals += 1;
        if self.wishes.iter().any(|wish| wish.0 == key && wish.1 <= due) {
            return;
        }
        self.wishes.retain(|wish| wish.0 != key);
        self.wishes.push((key, due, turn, self.arrivals));
    }

    /// Those that could be taken, in the order in which they fell due.
    fn ready(&self, now: Instant) -> Vec<u8> {
        let mut ready: Vec<_> = self
            .wishes
            .iter()
            .filter(|wish| wish.1 <= now && !self.running.contains(&wish.0))
            .collect();
        ready.sort_by_key(|wish| (wish.2, wish.3));
        ready.iter().map(|wish| wish.0).collect()
    }

    /// Flows that have come to have a key ready stand behind the others.
    fn look(&mut self, now: Instant) {
        for flow in self.ready(now).iter().map(Key::flow) {
            if !self.turns.contains(&flow) {
                self.turns.push(flow);
            }
        }
    }

    /// The one that must be taken next.
    fn next(&mut self, now: Instant) -> Option<u8> {
        self.look(now);
        let turn = *self.turns.first()?;
        self.ready(now).into_iter().find(|key| key.flow() == turn)
    }

    fn taken(&mut self, key: u8, now: Instant) {
        self.wishes.retain(|wish| wish.0 != key);
        self.running.push(key);
        self.turns.remove(0);
        self.look(now);
    }

    fn done(&mut self, key: u8, next: Next, now: Instant) {
        self.running.retain(|running| *running != key);
        let failures = &mut self.failures[usize::from(key)];
        *failures = if matches!(next, Next::Settled | Next::After(_)) { 0 } else { *failures + 1 };
        let pause = match (next, *failures) {
            (Next::Settled, _) => None,
            (Next::After(delay), _) => Some(delay),
            (Next::Again, 1) => Some(NOW),
            (Next::Again | Next::Retry, failures) => Some(Backoff::default().pause(failures, 1.0)),
        };
        if let Some(pause) = pause {
            self.wish(key, now + pause, now + pause);
        }
        // Whatever was asked for in the meantime takes its turn from here.
        self.arrivals += 1;
        let arrival = self.arrivals;
        for wish in self.wishes.iter_mut().filter(|wish| wish.0 == key) {
            (wish.2, wish.3) = (wish.1.max(now), arrival);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add(u8, u64),
    Step(u64),
    Take,
    Done(usize, Next),
}

fn op() -> impl Strategy<Value = Op> {
    let next = prop_oneof![
        Just(Next::Settled),
        Just(Next::Retry),
        Just(Next::Again),
        (0_u64..150).prop_map(|ms| Next::After(Duration::from_millis(ms))),
    ];
    prop_oneof![
        3 => (0_u8..6, prop_oneof![Just(0), 0_u64..150]).prop_map(|(key, ms)| Op::Add(key, ms)),
        1 => (1_u64..60).prop_map(Op::Step),
        3 => Just(Op::Take),
        3 => (0_usize..6, next).prop_map(|(which, next)| Op::Done(which, next)),
    ]
}

/// One key is taken if and only if the model says that it is its turn.
fn check_take(
    state: &mut State<u8>,
    model: &mut Model,
    now: Instant,
) -> Result<Option<u8>, TestCaseError> {
    let ready = model.ready(now);
    prop_assert_eq!(state.depth(now), ready.len());
    let job = state.take(now);
    prop_assert_eq!(job.as_ref().map(|job| job.key), model.next(now));
    let Some(job) = job else { return Ok(None) };
    let wish = model.wishes.iter().find(|wish| wish.0 == job.key).expect("it is ready");
    prop_assert_eq!(job.queued, now - wish.1);
    prop_assert_eq!(job.attempt, model.failures[usize::from(job.key)] + 1);
    model.taken(job.key, now);
    prop_assert_eq!(state.running(), model.running.len());
    Ok(Some(job.key))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_happens_no_key_runs_twice_is_lost_early_or_out_of_turn(
        ops in proptest::collection::vec(op(), 1..120)
    ) {
        let mut state = State::new(Backoff::default());
        let mut model = Model::default();
        let mut now = Instant::now();
        for op in ops {
            match op {
                Op::Add(key, ms) => {
                    let delay = Duration::from_millis(ms);
                    state.add(key, delay, Wake::Changed, now);
                    model.wish(key, now + delay, now + delay);
                    model.look(now);
                }
                Op::Step(ms) => now += Duration::from_millis(ms),
                Op::Take => {
                    check_take(&mut state, &mut model, now)?;
                }
                Op::Done(which, next) => {
                    let Some(key) = model.running.get(which).copied() else { continue };
                    prop_assert!(state.done(&key, next, now, 1.0));
                    model.done(key, next, now);
                    model.look(now);
                }
            }
        }
        // When all passes succeed from here on, every wish is served, and then nothing is left.
        loop {
            for key in model.running.clone() {
                state.done(&key, Next::Settled, now, 1.0);
                model.done(key, Next::Settled, now);
                model.look(now);
            }
            if check_take(&mut state, &mut model, now)?.is_none() {
                let Some(due) = state.next_due() else { break };
                prop_assert!(due > now);
                now = due;
            }
        }
        prop_assert!(model.wishes.is_empty());
        prop_assert!(state.slots.is_empty() && state.delayed.is_empty() && state.ready.is_empty());
    }
}
