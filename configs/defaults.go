package configs

import "time"

// Names of variables that hold the token, in the order in which they are
// looked at (facts outposts.md 1.2 and 1.4).
const (
	DefaultTokenEnv = "DEVIN_OUTPOSTS_TOKEN"
	OtherTokenEnv   = "DEVIN_API_TOKEN"
)

// DefaultAPIURL is where Devin Cloud answers (facts outposts.md 1.2).
const DefaultAPIURL = "https://api.devin.ai"

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Pool: Pool{
			Name:           "pool",
			Workers:        1,
			ParallelStarts: 8,
			MaxUnavailable: 1,
		},
		Outpost: Outpost{
			APIURL:       DefaultAPIURL,
			TokenEnv:     DefaultTokenEnv,
			PollInterval: Duration(5 * time.Second),
		},
		Provider: Provider{
			Kind:  "local",
			Local: Local{Isolation: "auto"},
		},
		Worker: Worker{
			Command: []string{"devin", "worker", "start", "--outpost={outpost}"},
			// GitHub and GitLab take any user name beside a token.
			GitUsername:    "x-access-token",
			PrepareTimeout: Duration(15 * time.Minute),
			StartWindow:    Duration(5 * time.Second),
			StopGrace:      Duration(30 * time.Second),
			DrainLimit:     Duration(2 * time.Hour),
			DeafAfter:      Duration(2 * time.Minute),
		},
		Restart: Restart{
			Initial:        Duration(time.Second),
			Max:            Duration(5 * time.Minute),
			Jitter:         0.25,
			ResetAfter:     Duration(10 * time.Minute),
			CrashLoopAfter: 5,
			ReplaceAfter:   3,
		},
		Logs: Logs{
			MaxSize:   10 * 1000 * 1000,
			MaxFiles:  5,
			LineLimit: 64 * 1000,
			Format:    "text",
			Level:     "info",
		},
	}
}
