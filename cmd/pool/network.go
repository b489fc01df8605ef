package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/outpostpool/pool/configs"
)

// httpClient reaches Devin Cloud the way the configuration says.
func httpClient(n configs.Network) *http.Client {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext, // facts outposts.md 2.1
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     90 * time.Second,
	}
	if n.Proxy != "" {
		choose := (&httpproxy.Config{HTTPProxy: n.Proxy, HTTPSProxy: n.Proxy, NoProxy: strings.Join(n.NoProxy, ",")}).ProxyFunc()
		transport.Proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
	}
	if n.CAFile != "" {
		transport.TLSClientConfig = &tls.Config{RootCAs: withCA(n.CAFile)}
	}
	return &http.Client{Transport: transport}
}

// withCA is the system's certificate authorities and those of a file. What is
// wrong with the file shows at the first connection, by its host's name.
func withCA(file string) *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if pem, err := os.ReadFile(file); err == nil {
		pool.AppendCertsFromPEM(pem)
	}
	return pool
}
