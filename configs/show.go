package configs

import (
	"bytes"

	"github.com/BurntSushi/toml"
)

// Show returns the whole configuration in force as TOML, defaults included.
// Secrets are in it by name only, as in every Config. Parse reads it back.
func Show(c Config) []byte {
	var out bytes.Buffer
	encoder := toml.NewEncoder(&out)
	encoder.Indent = ""
	if err := encoder.Encode(c); err != nil {
		// Every type of Config has a form in TOML.
		panic("show a configuration: " + err.Error())
	}
	return out.Bytes()
}
