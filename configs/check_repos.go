package configs

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

func checkRepos(c *Config) (found []finding) {
	if c.Worker.GitTokenEnv != "" && c.Worker.GitTokenFile != "" {
		found = append(found, finding{"worker.git_token_file", "is written beside git_token_env; write one of the two"})
	}
	if c.Worker.GitUsername == "" || strings.ContainsAny(c.Worker.GitUsername, " \t\r\n") {
		found = append(found, finding{"worker.git_username", "must be a word; leave the key out when only the token counts"})
	}
	first := map[string]int{}
	for i, repo := range c.Worker.Repos {
		key := elementOf("worker.repos", i)
		if repo.URL == "" {
			continue // reported where it was read
		}
		if problem := repoURLProblem(repo.URL); problem != "" {
			found = append(found, finding{key + ".url", problem})
			continue
		}
		if repo.Branch != "" && !branchName.MatchString(repo.Branch) || strings.Contains(repo.Branch, "..") {
			found = append(found, finding{key + ".branch", "is no name of a branch or tag"})
		}
		if _, tokenNamed := c.Worker.GitToken(); tokenNamed && inTheClear(repo.URL) {
			found = append(found, finding{key + ".url", "would send the git token without encryption; use https"})
		}
		name := repo.Name()
		if !repoName.MatchString(name) {
			found = append(found, finding{key + ".url", "must end in the repository's name, as in https://host/team/app"})
			continue
		}
		// Folders of one name in two cases are one folder on macOS.
		if earlier, taken := first[strings.ToLower(name)]; taken {
			found = append(found, finding{key + ".url", fmt.Sprintf("would be cloned into the same folder as worker.repos[%d]", earlier)})
			continue
		}
		first[strings.ToLower(name)] = i
	}
	return found
}

var (
	branchName = regexp.MustCompile(`^[A-Za-z0-9_][^\s~^:?*\[\\\x00-\x1f\x7f]*$`)
	repoName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	scpLike    = regexp.MustCompile(`^[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:[^\s:]+$`)
)

// repoURLProblem allows what a session's clone would use. Git's helpers, such
// as ext::, run programs, and a leading dash would be taken for a flag.
func repoURLProblem(text string) string {
	if scpLike.MatchString(text) {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"https", "http", "ssh", "git", "file"}, parsed.Scheme) || strings.ContainsAny(text, " \t\r\n") {
		return "must be an address such as https://github.com/team/app or git@github.com:team/app"
	}
	if _, set := parsed.User.Password(); set {
		return "has a password in it; name the token with git_token_env or git_token_file"
	}
	if parsed.User != nil && parsed.Scheme != "ssh" {
		return "has a user in it; write git_username and name the token with git_token_env or git_token_file"
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		return "must end in the repository's name, without ? or #"
	}
	if parsed.Scheme != "file" && parsed.Hostname() == "" {
		return "names no host"
	}
	return ""
}

func inTheClear(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Scheme == "http" && !isLoopback(parsed.Hostname())
}
