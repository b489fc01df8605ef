// Package outpost speaks Devin Cloud's Fleet API: which sessions wait, who
// holds which, and what a supervisor needs besides (facts outposts.md 2.6). It
// never claims, never retries and never lets the token into an error; when to
// ask again is the supervisor's decision, with RetryAfter to help.
package outpost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	connectTimeout = 10 * time.Second // facts outposts.md 2.1
	requestTimeout = 30 * time.Second
	answerLimit    = 32 << 20 // bytes; a full page of 200 entries has some 200 kB
)

var (
	errNotJSON  = errors.New("it is not the JSON of Devin's API")
	errNoItems  = errors.New("it has no list of items")
	errNoID     = errors.New("it names no outpost id")
	errTooLong  = fmt.Errorf("it is longer than %d bytes", answerLimit)
	errTooMany  = fmt.Errorf("the list does not end within %d pages", pageLimit)
	errRedirect = errors.New("it redirects elsewhere")
)

// Options configure a client.
type Options struct {
	APIURL string // see NormalizeURL; empty: DefaultURL
	// Token is asked before every call, so that a rotated one is taken up.
	Token func(ctx context.Context) (string, error)
	// HTTP carries the transport: proxies, certificates, in-memory connections.
	// Its redirect policy is not used. Nil: the environment's proxy settings.
	HTTP      *http.Client
	UserAgent string // empty: "pool"
}

// Client is safe for concurrent use. Every error of a call is an *APIError,
// the token function's own, or ErrNoToken.
type Client struct {
	origin    string
	originErr error
	token     func(ctx context.Context) (string, error)
	http      *http.Client
	userAgent string
	longRoute atomic.Bool // the documented outposts route is the one that works
}

// New makes a client and connects to nothing. A URL that cannot be used is
// reported by every call; NormalizeURL reports it early.
func New(o Options) *Client {
	c := &Client{token: o.Token, userAgent: o.UserAgent}
	c.origin, _, c.originErr = NormalizeURL(o.APIURL)
	if c.userAgent == "" {
		c.userAgent = "pool"
	}
	if o.HTTP != nil {
		inner := *o.HTTP
		c.http = &inner
	} else {
		c.http = &http.Client{Transport: defaultTransport()}
	}
	// A redirect is a portal or a wrong URL. Following one could turn a POST
	// into a GET and take a stranger's page for an answer.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func defaultTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        4,
		IdleConnTimeout:     90 * time.Second,
	}
}

// Close gives idle connections back. The client may be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request.
type call struct {
	op     string // for people, as in "read the queue"
	method string
	path   string // below the origin
	query  url.Values
	body   any    // nil: none
	role   string // the permission it needs, for the hint of a rejection
}

// do sends one call and returns the body of a successful answer.
func (c *Client) do(ctx context.Context, k call) ([]byte, error) {
	if c.originErr != nil {
		return nil, fmt.Errorf("%s: %w", k.op, c.originErr)
	}
	token, err := c.currentToken(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := c.request(ctx, k, token)
	if err != nil {
		return nil, &APIError{Op: k.op, Err: withoutSecret(err, token)}
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, &APIError{Op: k.op, Err: withoutSecret(plainCause(err), token)}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerLimit+1))
	if answer.StatusCode >= 300 {
		return nil, failure(k, answer, body, token)
	}
	if err != nil {
		return nil, &APIError{Op: k.op, Err: withoutSecret(fmt.Errorf("the answer broke off: %w", err), token)}
	}
	if len(body) > answerLimit {
		return nil, &APIError{Op: k.op, Status: answer.StatusCode, Err: errTooLong}
	}
	return body, nil
}

func (c *Client) currentToken(ctx context.Context) (string, error) {
	if c.token == nil {
		return "", ErrNoToken
	}
	token, err := c.token(ctx)
	if err != nil {
		return "", err
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", ErrNoToken
	}
	return token, nil
}

func (c *Client) request(ctx context.Context, k call, token string) (*http.Request, error) {
	address := c.origin + k.path
	if len(k.query) > 0 {
		address += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.body != nil {
		encoded, err := json.Marshal(k.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, k.method, address, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", c.userAgent)
	if k.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// plainCause drops the method and URL that net/http puts before the cause: the
// operation says it in better words.
func plainCause(err error) error {
	var wrapped *url.Error
	if !errors.As(err, &wrapped) {
		return err
	}
	if wrapped.Timeout() {
		return fmt.Errorf("no answer within %s: %w", requestTimeout, wrapped.Err)
	}
	return wrapped.Err
}

// withoutSecret hides the token in an error's text and keeps its identity.
func withoutSecret(err error, token string) error {
	if !strings.Contains(err.Error(), token) {
		return err
	}
	return &redacted{text: strings.ReplaceAll(err.Error(), token, "[token]"), is: err}
}

type redacted struct {
	text string
	is   error
}

func (r *redacted) Error() string        { return r.text }
func (r *redacted) Is(target error) bool { return errors.Is(r.is, target) }
