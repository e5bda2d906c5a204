//! A smaller program that fails in the same way.
//!
//! Reductions of a program are numbered in a fixed order, so a reduced program is named by its seed and
//! the numbers of the reductions that were taken: `MEMO_SEED=7 MEMO_PATH=3,0,12`.

use super::program::{Action, Ending, Hook, Op, Program, Stmt};

/// Takes reductions as long as `fails`, with a bound on the tries. Returns their numbers too.
pub(super) fn shrink(
    program: &Program,
    mut tries: usize,
    mut fails: impl FnMut(&Program, &[usize]) -> bool,
) -> (Program, Vec<usize>) {
    let (mut smallest, mut path) = (program.clone(), Vec::new());
    let mut from = 0;
    loop {
        let all = reductions(&smallest);
        let count = all.len();
        // Goes on where the last one was taken, since what came before was in vain.
        let order = (0..count).map(|at| (at + from) % count.max(1));
        let mut found = None;
        for at in order {
            if tries == 0 {
                return (smallest, path);
            }
            tries -= 1;
            path.push(at);
            if fails(&all[at], &path) {
                found = Some(at);
                break;
            }
            path.pop();
        }
        let Some(at) = found else { return (smallest, path) };
        from = at;
        smallest = all[at].clone();
    }
}

/// The program that a path names.
pub(super) fn follow(program: Program, path: &[usize]) -> Program {
    path.iter().fold(program, |program, &at| {
        reductions(&program)
            .get(at)
            .cloned()
            .expect("a path belongs to its seed and this version of the tests")
    })
}

type Change<'a> = &'a dyn Fn(&mut Program);

fn reductions(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut smaller = program.clone();
        change(&mut smaller);
        all.push(smaller);
    };
    for phase in 0..program.phases.len() {
        with(&|it| _ = it.phases.remove(phase));
    }
    for hook in 0..program.hooks.len() {
        with(&|it| _ = it.hooks.remove(hook));
    }
    for (phase, tasks) in program.phases.iter().enumerate() {
        for task in 0..tasks.len() {
            with(&|it| _ = it.phases[phase].remove(task));
        }
    }
    for (phase, tasks) in program.phases.iter().enumerate() {
        for (task, ops) in tasks.iter().enumerate() {
            for (at, op) in ops.iter().enumerate() {
                with(&|it| _ = it.phases[phase][task].remove(at));
                for simpler in simpler_op(op) {
                    with(&|it| it.phases[phase][task][at] = simpler.clone());
                }
            }
        }
    }
    let mut rest = reduced_memos(program);
    rest.extend(reduced_circumstances(program));
    all.extend(rest);
    all
}

fn reduced_memos(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut smaller = program.clone();
        change(&mut smaller);
        all.push(smaller);
    };
    for (memo, spec) in program.memos.iter().enumerate() {
        for (key, rule) in spec.rules.iter().enumerate() {
            for smaller in smaller_rules(rule) {
                with(&|it| it.memos[memo].rules[key] = smaller.clone());
            }
        }
        let options: [(bool, Change<'_>); 8] = [
            (spec.verify, &|it| it.memos[memo].verify = false),
            (spec.strict, &|it| it.memos[memo].strict = false),
            (spec.no_cutoff, &|it| it.memos[memo].no_cutoff = false),
            (spec.fingerprint, &|it| it.memos[memo].fingerprint = false),
            (spec.ttl.is_some(), &|it| it.memos[memo].ttl = None),
            (spec.error_ttl.is_some(), &|it| it.memos[memo].error_ttl = None),
            (spec.weigh.is_some(), &|it| it.memos[memo].weigh = None),
            (spec.budget.is_some(), &|it| it.memos[memo].budget = None),
        ];
        options.into_iter().filter(|(on, _)| *on).for_each(|(_, change)| with(change));
    }
    all
}

/// The ending, the size of steps, the hooks and the schedule.
fn reduced_circumstances(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut smaller = program.clone();
        change(&mut smaller);
        all.push(smaller);
    };
    if program.ending != Ending::Here {
        with(&|it| it.ending = Ending::Here);
    }
    if program.crowded {
        with(&|it| it.crowded = false);
    }
    if program.external.is_some() {
        with(&|it| it.external = None);
    }
    if program.chunk != 512 {
        with(&|it| it.chunk = 512);
    }
    for (at, Hook { nth, action, .. }) in program.hooks.iter().enumerate() {
        if let Action::Schedule(polls) = action
            && *polls > 1
        {
            with(&|it| it.hooks[at].action = Action::Schedule(polls - 1));
        }
        if let Action::Elsewhere(op) = action
            && !op.asks()
        {
            with(&|it| it.hooks[at].action = Action::Inline(op.clone()));
        }
        if *nth > 0 {
            with(&|it| it.hooks[at].nth = nth / 2);
            with(&|it| it.hooks[at].nth = nth - 1);
        }
    }
    for schedule in 0..4 {
        if program.schedule > 3 {
            with(&|it| it.schedule = schedule);
        }
    }
    all
}

fn simpler_op(op: &Op) -> Vec<Op> {
    match op {
        Op::Together(nodes) => nodes.iter().map(|&node| Op::Get { node }).collect(),
        Op::Leave { node, .. } | Op::Hold { node } | Op::Enroll { node, .. } => {
            vec![Op::Get { node: *node }]
        }
        Op::ChangeMany { cells }
        | Op::ChangeAll { cells }
        | Op::Suspend { cells, .. }
        | Op::Rollback { cells, .. }
        | Op::Batch { cells, panics: false } => {
            cells.iter().map(|&cell| Op::Change { cell }).collect()
        }
        Op::Write { cells, .. } => vec![Op::Change { cell: cells[0] }],
        Op::Batch { cells, panics } if cells.len() > 1 => {
            vec![Op::Batch { cells: vec![cells[0]], panics: *panics }]
        }
        Op::ChangeAsync { cell, .. } => vec![Op::Change { cell: *cell }],
        _ => Vec::new(),
    }
}

fn smaller_rules(rule: &[Stmt]) -> Vec<Vec<Stmt>> {
    let mut all = Vec::new();
    for (at, stmt) in rule.iter().enumerate() {
        let mut put = |instead: &[Stmt]| {
            let mut smaller = rule.to_vec();
            smaller.splice(at..=at, instead.iter().cloned());
            all.push(smaller);
        };
        put(&[]);
        let wrap: &dyn Fn(Vec<Stmt>) -> Stmt = match stmt {
            Stmt::Branch { even, odd, .. } => {
                put(even);
                put(odd);
                continue;
            }
            Stmt::Spawn { body } => {
                put(body);
                &|body| Stmt::Spawn { body }
            }
            Stmt::Scope { body, channel, after, abort } => {
                put(body);
                if !after.is_empty() {
                    put(&[Stmt::Scope {
                        body: body.clone(),
                        channel: *channel,
                        after: Vec::new(),
                        abort: *abort,
                    }]);
                }
                &move |body| Stmt::Scope {
                    body,
                    channel: *channel,
                    after: after.clone(),
                    abort: *abort,
                }
            }
            _ => continue,
        };
        let (Stmt::Spawn { body } | Stmt::Scope { body, .. }) = stmt else { continue };
        for smaller in smaller_rules(body) {
            put(&[wrap(smaller)]);
        }
    }
    all
}
