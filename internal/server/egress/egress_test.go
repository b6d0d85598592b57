package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

func TestControl(t *testing.T) {
	options := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(flags)
	for address, denied := range map[string]bool{
		"169.254.169.254:443":          true,
		"[::ffff:169.254.169.254]:443": true,
		"[fe80::1]:443":                true,
		"127.0.0.1:443":                false,
		"[2001:db8::1]:443":            false,
		"[fe80::1%eth0]:443":           true, // what cannot be compared is refused
		"example.com:443":              true,
	} {
		if err := options.control("tcp", address, nil); (err != nil) != denied {
			t.Errorf("%s: %v, want an error: %v", address, err, denied)
		}
	}
	if err := flags.Parse([]string{"--tenant-webhook-denied-cidrs=127.0.0.0/8,10.0.0.0/8"}); err != nil {
		t.Fatal(err)
	}
	for address, denied := range map[string]bool{"127.0.0.1:443": true, "10.1.2.3:443": true, "169.254.169.254:443": false} {
		if err := options.control("tcp", address, nil); (err != nil) != denied {
			t.Errorf("with a flag, %s: %v, want an error: %v", address, err, denied)
		}
	}
}

func TestForTenants(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	trusted := func(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		// Upstream dials services itself.
		config := &rest.Config{BearerToken: "all rights", UserAgent: "server", Dial: (&net.Dialer{}).DialContext}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc:        func(string) (*rest.Config, error) { return config, nil },
			ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return config, nil },
		}
	}
	resolver := Options{Denied: []net.IPNet{network("127.0.0.0/8"), network("::1/128")}}.ForTenants(trusted)(nil)
	byURL, err := resolver.ClientConfigFor("localhost:443")
	if err != nil {
		t.Fatal(err)
	}
	byService, err := resolver.ClientConfigForService("kubernetes", "default", 443)
	if err != nil {
		t.Fatal(err)
	}
	for kind, config := range map[string]*rest.Config{"URL": byURL, "service": byService} {
		if config.BearerToken != "" || config.UserAgent != "server" {
			t.Errorf("%s: token %q, user agent %q", kind, config.BearerToken, config.UserAgent)
		}
		for _, address := range []string{server.Listener.Addr().String(), strings.Replace(server.Listener.Addr().String(), "127.0.0.1", "localhost", 1)} {
			if conn, err := config.Dial(t.Context(), "tcp", address); err == nil {
				conn.Close()
				t.Errorf("%s: connected to %s", kind, address)
			} else if !strings.Contains(err.Error(), "webhooks of tenants may not be") {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	if asked {
		t.Error("the server was asked")
	}
}

func TestSelectorDials(t *testing.T) {
	selected := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	options := NewOptions()
	options.Selected = true
	config, err := options.restrict(&rest.Config{Dial: selected}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Dial(t.Context(), "tcp", "169.254.169.254:443"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want the error of the egress selector", err)
	}
}
