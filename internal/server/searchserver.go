package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/tenantry/tenantry/internal/search"
)

// SearchServer answers searches of servers, and nothing else. It reads etcd, and writes nothing there.
type SearchServer struct {
	finder  *search.Service
	serving *genericapiserver.SecureServingInfo
	servers authenticator.Request
	ca      dynamiccertificates.CAContentProvider
}

// NewSearch makes a server of searches, of options with SearchOnly. What is stored where, and what decides rights, is
// known from the same assembly as that of a server, which is never run.
func NewSearch(ctx context.Context, opts CompletedOptions) (*SearchServer, error) {
	s, err := New(ctx, opts)
	if err != nil {
		return nil, err
	}
	proxies, err := opts.kube.Authentication.RequestHeader.ToAuthenticationRequestHeaderConfig()
	switch {
	case err != nil:
		return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
	case proxies == nil:
		return nil, errors.New("--requestheader-client-ca-file: name the authority that signs the certificates by which servers ask")
	}
	serving := *s.serving
	serving.ClientCA = proxies.CAContentProvider // clients are asked for certificates, which are verified for each request
	return &SearchServer{
		finder: s.finder, serving: &serving, ca: proxies.CAContentProvider,
		servers: search.Servers(proxies.CAContentProvider.VerifyOptions, proxies.AllowedClientNames.Value()),
	}, nil
}

// drain is for how long answers that are being made are waited for.
const drain = 10 * time.Second

// Run serves until ctx ends.
func (s *SearchServer) Run(ctx context.Context) error {
	if follows, ok := s.ca.(dynamiccertificates.ControllerRunner); ok {
		go follows.Run(ctx, 1)
	}
	finding, stop := context.WithCancel(context.WithoutCancel(ctx))
	found := make(chan struct{})
	go func() {
		defer close(found)
		s.finder.Run(finding)
	}()
	stopped, _, err := s.serving.Serve(s.finder.Handler(s.servers), drain, ctx.Done())
	if err == nil {
		<-ctx.Done()
		<-stopped
	}
	stop() // once nobody is answered any more
	<-found
	return err
}
