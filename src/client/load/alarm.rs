//! Timer with the precision of the kernel's.
//!
//! The timers of the runtime are for timeouts: they round up to a millisecond, which would be latency in an
//! open loop.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Timer that can be set again and again.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    set_for: Option<Instant>,
}

impl Alarm {
    #[expect(
        deprecated,
        reason = "it asks for a descriptor that stays open: an owned one does"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            timer: AsyncFd::new(timer)?,
            set_for: None,
        })
    }

    /// Waits for a moment. This is cancel safe, and costs a system call only if the moment is another one.
    pub(super) async fn until(&mut self, moment: Instant) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_until(moment, context)).await
    }

    fn poll_until(&mut self, moment: Instant, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Poll::Ready(Ok(()));
            }
            if self.set_for != Some(moment) {
                timerfd_settime(
                    self.timer.get_ref(),
                    TimerfdTimerFlags::empty(),
                    &after(left),
                )?;
                self.set_for = Some(moment);
            }
            let mut guard = ready!(self.timer.poll_read_ready(context))?;
            let mut count = [0; 8];
            match rustix::io::read(guard.get_inner(), &mut count) {
                // It has rung, maybe for the moment before.
                Ok(_) => self.set_for = None,
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

fn after(left: Duration) -> Itimerspec {
    Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Alarm;

    #[tokio::test]
    async fn moments_come_in_time_and_can_be_given_up() {
        let mut alarm = Alarm::new().unwrap();
        let start = Instant::now();
        // Given up for an earlier moment, whose ring is not that of the later one.
        let far = start + Duration::from_secs(60);
        let given_up = tokio::time::timeout(Duration::from_millis(1), alarm.until(far)).await;
        assert!(given_up.is_err());
        for step in [2, 4, 5] {
            let due = start + Duration::from_millis(10 * step);
            alarm.until(due).await.unwrap();
            assert!(Instant::now() >= due);
        }
        alarm.until(start).await.unwrap();
    }
}
