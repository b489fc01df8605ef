// Package e2e drives the built program from outside: real processes, real
// sockets, a real terminal, kill -9. It knows the command line, the JSON of
// `status` and the double of the outpost, and nothing of the inside.
//
// The binary is built once per run with the race detector; POOL_E2E_BINARY
// names one to use instead. Every test has a world of its own (harness_test.go)
// that fails the test when something of the pool is left after its end.
package e2e
