//! What every answer is when nothing is memoized: the functions again, from the cells, at once.

use super::program::{CELLS, Node, Program, Stmt, View};
use super::user::Sight;

/// An answer without memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Value(Vec<Sight>),
    Fault(Vec<Sight>),
    /// A panic, a cycle, or a graph that is closed.
    Passing,
}

/// See [`Answer`].
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    pub(super) answer: Answer,
    /// The room promises to keep the answer and to say when it changes.
    pub(super) is_kept: bool,
    /// Something was read that nobody can track.
    is_tainted: bool,
}

/// Computes a node from nothing.
pub(super) fn evaluate(
    program: &Program,
    counts: &[u32],
    closed: &[bool],
    node: Node,
) -> Evaluation {
    Reference { program, counts, closed, path: Vec::new() }.node(node)
}

struct Reference<'a> {
    program: &'a Program,
    counts: &'a [u32],
    closed: &'a [bool],
    path: Vec<Node>,
}

#[derive(Clone, Default)]
struct Run {
    sights: Vec<Sight>,
    tainted: bool,
}

enum Stop {
    Fault,
    Passing,
}

impl Reference<'_> {
    fn node(&mut self, node: Node) -> Evaluation {
        if self.path.contains(&node) || self.closed[self.program.memos[node.memo].graph] {
            return Evaluation { answer: Answer::Passing, is_kept: false, is_tainted: true };
        }
        self.path.push(node);
        let mut run = Run::default();
        let ended = self.stmts(node, self.program.rule(node), &mut run);
        self.path.pop();
        let spec = &self.program.memos[node.memo];
        let sights = sorted(run.sights);
        let (answer, keeps) = match ended {
            Ok(()) => (Answer::Value(sights), true),
            Err(Stop::Fault) => (Answer::Fault(sights), spec.error_ttl.is_some()),
            Err(Stop::Passing) => (Answer::Passing, false),
        };
        Evaluation { answer, is_kept: keeps && !run.tainted, is_tainted: run.tainted || !keeps }
    }

    fn see(&self, node: Node, cell: usize, view: View, run: &mut Run) -> u32 {
        run.tainted |= Program::graph_of(cell) != self.program.memos[node.memo].graph;
        let shown = view.of(self.counts[cell]);
        run.sights.push(Sight { cell, view, shown });
        shown
    }

    fn ask(&mut self, node: Node, from: Node, run: &mut Run) -> Evaluation {
        let memos = &self.program.memos;
        run.tainted |= memos[node.memo].graph != memos[from.memo].graph;
        let found = self.node(node);
        run.tainted |= found.is_tainted;
        found
    }

    fn stmts(&mut self, node: Node, stmts: &[Stmt], run: &mut Run) -> Result<(), Stop> {
        stmts.iter().try_for_each(|stmt| self.stmt(node, stmt, run))
    }

    fn stmt(&mut self, node: Node, stmt: &Stmt, run: &mut Run) -> Result<(), Stop> {
        match stmt {
            Stmt::Yield | Stmt::Wait => {}
            Stmt::Read { cell, view, .. } | Stmt::ReadLate { cell, view, .. } => {
                _ = self.see(node, *cell, *view, run)
            }
            Stmt::Range { graph, low, high, view, .. } => {
                for cell in *low..*high {
                    self.see(node, graph * CELLS + cell, *view, run);
                }
            }
            Stmt::FailIf { cell, view, shown } => {
                if self.see(node, *cell, *view, run) == *shown {
                    return Err(Stop::Fault);
                }
            }
            Stmt::PanicIf { cell, view, shown } => {
                if self.see(node, *cell, *view, run) == *shown {
                    return Err(Stop::Passing);
                }
            }
            Stmt::Branch { cell, even, odd } => {
                let chosen = if self.see(node, *cell, View::Parity, run) == 0 { even } else { odd };
                return self.stmts(node, chosen, run);
            }
            Stmt::Call { node: below, tolerate, forget, .. } => {
                let found = self.ask(*below, node, run);
                return merge(*below, found, *tolerate, *forget, run);
            }
            Stmt::Both(nodes) => {
                let found: Vec<_> = nodes.iter().map(|below| self.ask(*below, node, run)).collect();
                for (below, found) in nodes.iter().zip(found) {
                    merge(*below, found, false, false, run)?;
                }
            }
            // It gives up, unless so few polls are enough.
            Stmt::Inherit { polls } => run.tainted |= *polls > 0,
            // It is there, or not.
            Stmt::Glimpse { .. } => run.tainted = true,
            Stmt::Glance { node: below, .. } => {
                let _ = self.ask(*below, node, run);
                run.tainted = true;
            }
            Stmt::Scope { body, after, .. } => {
                let mut late = run.clone();
                self.stmts(node, body, run)?;
                // What comes after the answer is not used, but may be read before publishing.
                let _ = self.stmts(node, after, &mut late);
                run.tainted |= late.tainted;
            }
            // What it asks for may announce changes.
            Stmt::Spawn { .. } => {
                run.tainted |= self.program.any_stmt(&|stmt| matches!(stmt, Stmt::Touch { .. }));
            }
            Stmt::Touch { .. } => run.tainted = true,
        }
        Ok(())
    }
}

fn merge(
    node: Node,
    found: Evaluation,
    tolerate: bool,
    forget: bool,
    run: &mut Run,
) -> Result<(), Stop> {
    match found.answer {
        Answer::Value(_) if forget => Ok(()),
        Answer::Value(sights) => {
            run.sights.extend(sights);
            Ok(())
        }
        Answer::Fault(sights) => {
            run.sights.extend(sights);
            run.sights.push(Sight::failed(node));
            if tolerate { Ok(()) } else { Err(Stop::Fault) }
        }
        Answer::Passing => Err(Stop::Passing),
    }
}

/// The order in which sights are compared.
pub(super) fn sorted(mut sights: Vec<Sight>) -> Vec<Sight> {
    sights.sort_unstable();
    sights.dedup();
    sights
}
