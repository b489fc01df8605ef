package launch

import (
	"time"

	"github.com/outpostpool/pool/providers"
)

// verdict decides whether a worker has ended, and how, from what was seen of
// it: whether it lives, whether its keeper lives, and worker.exit as it was
// after that look.
func verdict(rec PID, workerLives, keeperLives bool, exitFile string, now func() time.Time) (providers.Exit, bool, error) {
	if exit, err := ParseExit([]byte(exitFile)); err == nil && exit.LaunchID == rec.LaunchID {
		return exit.Result(), true, nil
	}
	if workerLives || keeperLives {
		return providers.Exit{}, false, nil
	}
	return providers.Exit{Known: false, At: now()}, true, nil
}
