package local

import (
	"fmt"
	"strings"

	"github.com/outpostpool/pool/providers"
)

const (
	workspacesDir = "workspaces"
	runDir        = "run"
	cacheDir      = "cache"
	homeDir       = ".home"
	reposDir      = "repos"
	metaFile      = "meta.json"
	launchFile    = "launch.json"
	lockSuffix    = ".lock"
	trashPrefix   = ".trash-"
	trialPrefix   = ".trial-"
	workspaceID   = "workspace:"
	maxName       = 120
)

// validName reports whether a name is one that Create gives: safe as a file
// name, and never one of our own folders.
func validName(name string) bool {
	return validWord(name, maxName) && name != workspacesDir
}

// validWord reports whether a word has only a-z, 0-9 and dashes, and begins
// with none of the latter.
func validWord(word string, limit int) bool {
	if word == "" || len(word) > limit || word[0] == '-' {
		return false
	}
	return strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// slotKey names the workspace that a slot's generations share.
func slotKey(l providers.Labels) string {
	return fmt.Sprintf("%s-%s-%d", l.Pool, l.UID, l.Slot)
}

// checkSpec refuses what would not be a safe name, and what this machine
// cannot give.
func checkSpec(s providers.Spec) error {
	op := "create " + s.Name
	invalid := func(format string, args ...any) error {
		return providers.Errorf(providers.Invalid, op, format, args...)
	}
	switch {
	case !validName(s.Name):
		return invalid("a sandbox's name has only a-z, 0-9 and dashes, at most %d", maxName)
	case !validWord(s.Labels.Pool, 40):
		return invalid("the pool's name %q must have 1 to 40 of a-z, 0-9 and dashes", s.Labels.Pool)
	case !validWord(s.Labels.UID, 32):
		return invalid("the pool's uid %q must have 1 to 32 of a-z, 0-9 and dashes", s.Labels.UID)
	case s.Labels.Slot < 0:
		return invalid("slot %d is below 0", s.Labels.Slot)
	case len(s.Secrets) > 0:
		return invalid("this machine has no secret store for %s", s.Secrets[0].Env)
	case s.From != "":
		return providers.Errorf(providers.BadSnapshot, op, "the local provider has no native snapshots, so not %q either", s.From)
	}
	return nil
}
