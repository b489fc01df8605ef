// Package local makes sandboxes on this machine: a directory, a process tree
// and, with bubblewrap, walls around it.
//
// # On disk
//
// Everything lies below Options.Dir, folders 0700 and files 0600:
//
//	<name>/meta.json             what the sandbox is; it exists from this file on
//	<name>/run/                  the launch protocol's files (providers/launch)
//	<name>/launch.json           the pids we launched, with start times and boot id
//	<name>/cache/                private to the sandbox, outside the workspace
//	workspaces/<slot key>.json   who owns the workspace now, or owned it last
//	workspaces/<slot key>/       the workspace: repos/, and HOME at .home
//	workspaces/<slot key>.lock   held while a sandbox of the slot is made or removed
//	.trash-*                     being deleted; swept by the next New
//	.trial-*                     New trying walls; an old one is swept by the next New
//
// The slot key is <pool>-<uid>-<slot>: a workspace outlives the generations of
// its slot, and Create of the next one is a Conflict while the one before
// still exists. A workspace whose sandbox is gone is listed with State Gone,
// Retained, and an ID of "workspace:<slot key>"; opened by that id it can be
// looked at (Info) and discarded (Remove with keepWorkspace false), no more.
// Removing a sandbox takes the workspace first and the sandbox last, so that a
// crash in between leaves something that can be removed again.
//
// # Walls
//
// With isolation "bwrap" a command sees the system read-only, its workspace at
// /workspace, its cache folder at /run/cache, a /tmp, /run, /home and /root of
// its own, its own processes, and the host's network. It sees neither the
// records nor other sandboxes. Each Exec is an instance of its own, so /tmp is
// not shared between an Exec and the worker, and neither sees the other's
// processes. With "none" the same layout exists without walls: a session can
// reach whatever the user of pool can.
//
// A command on a terminal leads a session inside the walls and takes the
// terminal there, by setsid -c; without a setsid that can, the terminal belongs
// to bubblewrap, and a shell with job control complains at its end.
//
// # Gone
//
// NotFound says that nothing of a sandbox acts any more. Somebody may delete
// its folder and leave its worker: so before Open, Info and the like answer
// NotFound, and before Create gives the slot's workspace to the next
// generation, what is left is killed, and while some of it lives the answer is
// Transient. It is known by its marker (POOL_RUN: the launch id in memory, the
// sandbox's name with a counter, or an exec's, which begins with the name and
// ".exec."), by the launch script that a keeper runs, and by the cgroup. Remove
// ends the same, so that no Exec of a killed supervisor stays behind. Where
// the kernel shows no environment, as on macOS, only what this program has in
// memory is known.
//
// Incarnation is the boot id and the time of creation: a reboot loses the
// processes, not the directory.
//
// # What holds it up
//
// A sandbox costs one waiting shell (the launch protocol's keeper) beside the
// worker, and no goroutine unless somebody waits or follows. Keepers are
// children of the supervisor that started them; they are reaped when somebody
// looks at them.
//
// Exec runs outside the sandbox's cgroup: limits hold for the worker's tree.
// Processes of another user than ours are never signalled, even by root; Wait
// names them among what is left.
package local
