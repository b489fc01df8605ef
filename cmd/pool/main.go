package main

import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/charmbracelet/x/ansi"
	_ "github.com/coder/websocket"
	_ "github.com/creack/pty"
	_ "github.com/dustin/go-humanize"
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/getkin/kin-openapi/openapi3filter"
	_ "github.com/getkin/kin-openapi/routers/gorillamux"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/urfave/cli/v2"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)

func main() {}
