package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"github.com/outpostpool/pool/providers"
	"github.com/outpostpool/pool/providers/launch"
)

func writeEpoch(run *os.Root, epoch int64) error {
	return writeSmall(run, launch.EpochFile, []byte(strconv.FormatInt(epoch, 10)+"\n"))
}

func readEpoch(run *os.Root) (int64, error) {
	data, err := readSmall(run, launch.EpochFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return launch.ParseEpoch(data), err
}

// epochNow is the epoch this program launches with: the highest it gave, or
// the one it found when it first launched. Later raises are somebody else's.
func (s *Sandbox) epochNow() (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch > 0 {
		return s.epoch, nil
	}
	found, err := readEpoch(s.run)
	s.epoch = max(s.epoch, found)
	return found, err
}

// Epoch reads the epoch in force.
func (s *Sandbox) Epoch(ctx context.Context) (int64, error) {
	if err := s.check(ctx, "read the epoch of"); err != nil {
		return 0, err
	}
	epoch, err := readEpoch(s.run)
	return epoch, fileError("read the epoch of "+s.meta.Name, err)
}

// RaiseEpoch raises the epoch under the launch script's lock; the same again
// is fine, a lower one is a Conflict.
func (s *Sandbox) RaiseEpoch(ctx context.Context, epoch int64) error {
	op := "raise the epoch of " + s.meta.Name
	if err := s.check(ctx, "raise the epoch of"); err != nil {
		return err
	}
	if epoch < 0 {
		return providers.Errorf(providers.Invalid, op, "epoch %d is below 0", epoch)
	}
	s.launching.Lock()
	defer s.launching.Unlock()
	answer, _, err := s.callScript(ctx, op, "", epoch, nil, nil)
	if err == nil {
		err = answered(op, answer)
	}
	if err == nil {
		s.holdEpoch(epoch)
	}
	return err
}

// holdEpoch makes later launches of this program carry the epoch.
func (s *Sandbox) holdEpoch(epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = max(s.epoch, epoch)
}
