package configs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"
)

const crowdedSource = `# a comment with [not.a.table] and x = 1
top = 1
[pool]  # = trap
name = "a#b]"
text = """
fake = 1
[fake]
\""" still ""fake"" inside"""""
after = '''
it's
'''
sandbox.cpu = 2
  "quoted key".'sub key' = {a = 1, "b.c" = [1, {d = 2}]}

[worker]
command = ["x", # one
  "y",

  '[z]',
]
when = 1979-05-27 07:32:00
env = { A = "1", B = "}" }
[[worker.repos]]
url = "one"
  [worker.repos.more]
  deep.er = 1
[[worker.repos]]
url = "two"
inline = [[1, 2],
 [3]]
[worker.repos.more]
deep = 2
["odd.\u0041"."x[1]"]
k = 1
[ spaced . header ]
k=2
`

func TestPositionsOfEverything(t *testing.T) {
	if err := toml.Unmarshal([]byte(crowdedSource), &map[string]any{}); err != nil {
		t.Fatalf("the test's own TOML is wrong: %v", err)
	}
	lines := findPositions(crowdedSource)
	for key, want := range map[string]int{
		"top": 2, "pool": 3, "pool.name": 4, "pool.text": 5, "pool.after": 9,
		"pool.sandbox": 12, "pool.sandbox.cpu": 12,
		`pool."quoted key"."sub key"`: 13, `pool."quoted key"."sub key".a`: 13, `pool."quoted key"."sub key"."b.c"[1].d`: 13,
		"worker": 15, "worker.command": 16, "worker.command[0]": 16, "worker.command[1]": 17, "worker.command[2]": 19,
		"worker.when": 21, "worker.env": 22, "worker.env.A": 22, "worker.env.B": 22,
		"worker.repos": 23, "worker.repos[0]": 23, "worker.repos[0].url": 24, "worker.repos[0].more": 25, "worker.repos[0].more.deep.er": 26,
		"worker.repos[1]": 27, "worker.repos[1].url": 28, "worker.repos[1].inline": 29, "worker.repos[1].inline[0][1]": 29, "worker.repos[1].inline[1][0]": 30,
		"worker.repos[1].more": 31, "worker.repos[1].more.deep": 32,
		`"odd.A"."x[1]".k`: 34, "spaced.header.k": 36,
	} {
		if got := lines[key]; got != want {
			t.Errorf("%s is on line %d, want %d", key, got, want)
		}
	}
	for key := range lines {
		if key == "fake" || key == "pool.fake" || key == "not" || key == "x" {
			t.Errorf("%s was found inside a text or a comment", key)
		}
	}
}

func TestAMissingKeyIsReportedAtWhatIsAroundIt(t *testing.T) {
	lines := findPositions(crowdedSource)
	for key, want := range map[string]int{
		"worker.repos[1].branch":            27,
		"pool.nothing.here":                 3,
		`pool."quoted key"."not. there"[3]`: 13,
		"worker.command[7]":                 16,
		"nowhere":                           0,
		`"no.where"`:                        0,
		`worker.env."x.y"`:                  22,
	} {
		if got := lines.line(key); got != want {
			t.Errorf("%s is reported on line %d, want %d", key, got, want)
		}
	}
}

// Every key that the library sees must have a place, in each example and in
// the crowded source.
func TestPositionsAgreeWithTheLibrary(t *testing.T) {
	sources := map[string]string{"crowded": crowdedSource}
	files, err := filepath.Glob("examples/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources[file] = string(data)
	}
	for name, source := range sources {
		values := map[string]any{}
		if _, err := toml.Decode(source, &values); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		everyKey("", values, func(key string) {
			if findPositions(source)[key] == 0 {
				t.Errorf("%s: %s has no line", name, key)
			}
		})
	}
}

func everyKey(at string, value any, visit func(string)) {
	if at != "" {
		visit(at)
	}
	if table, ok := value.(map[string]any); ok {
		for name, element := range table {
			everyKey(keyIn(at, name), element, visit)
		}
	}
	elements, _ := asList(value)
	for i, element := range elements {
		everyKey(elementOf(at, i), element, visit)
	}
}
