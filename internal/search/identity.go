package search

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// askerHeader is the header by which a server says who asks, and where: an identity, in JSON and base64, because names
// may have bytes that headers lose. The server makes the request, and none of its clients' headers are in it.
const askerHeader = "X-Tenantry-Asker"

// identity is who asks, and where.
type identity struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
	// Tenant is that of the user, Space the one that is searched, and Life the UID of its tenant.
	Tenant tenant.Name `json:"tenant"`
	Space  tenant.Name `json:"space"`
	Life   types.UID   `json:"life,omitempty"`
	// Elsewhere are who asks in other spaces that are searched.
	Elsewhere []identity `json:"elsewhere,omitempty"`
}

// identity returns who asks, and where.
func (a *asker) identity() identity {
	return identity{
		Name: a.user.GetName(), UID: a.user.GetUID(), Groups: a.user.GetGroups(), Extra: a.user.GetExtra(), Tenant: a.userTenant, Space: a.space, Life: a.life,
	}
}

// write says who asks, and where.
func (a *asker) write(req *http.Request) error {
	who := a.identity()
	for _, in := range a.all() {
		if in != a {
			who.Elsewhere = append(who.Elsewhere, in.identity())
		}
	}
	encoded, err := json.Marshal(who)
	if err != nil {
		return fmt.Errorf("encoding who asks: %w", err)
	}
	req.Header.Set(askerHeader, base64.RawURLEncoding.EncodeToString(encoded))
	return nil
}

// askedBy returns the context of a request as the server that sends it has had it.
func askedBy(req *http.Request, servers authenticator.Request) (context.Context, error) {
	if _, ok, err := servers.AuthenticateRequest(req); err != nil || !ok {
		return nil, errors.Join(err, errors.New("it is none of a server"))
	}
	decoded, err := base64.RawURLEncoding.DecodeString(req.Header.Get(askerHeader))
	if err != nil {
		return nil, fmt.Errorf("header %s: %w", askerHeader, err)
	}
	var who identity
	if err := json.Unmarshal(decoded, &who); err != nil {
		return nil, fmt.Errorf("header %s: %w", askerHeader, err)
	}
	ctx, err := who.in(context.WithValue(req.Context(), forServerKey{}, true))
	if err != nil {
		return nil, err
	}
	v := &visit{admitted: map[tenant.Name]*asker{}, final: true}
	for i := range who.Elsewhere {
		in, err := who.Elsewhere[i].in(req.Context())
		if err != nil {
			return nil, err
		}
		if v.admitted[who.Elsewhere[i].Space], err = newAsker(in); err != nil {
			return nil, err
		}
	}
	return withVisit(ctx, v), nil
}

// in returns the context of a request as the server has had it in one space.
func (who *identity) in(ctx context.Context) (context.Context, error) {
	for _, n := range []tenant.Name{who.Tenant, who.Space} { // none is never the system space
		if _, err := tenant.Parse(string(n)); err != nil {
			return nil, fmt.Errorf("header %s: %w", askerHeader, err)
		}
	}
	r := &tenant.Request{Requested: who.Space.Scope(), Authenticated: who.Tenant}
	if who.Tenant.IsSpace() && who.Tenant != who.Space {
		r.Admit(who.Tenant) // as the server has
	}
	u := &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: who.Groups, Extra: who.Extra}
	ctx = tenant.WithRequest(request.WithUser(ctx, u), r)
	if who.Space.IsSpace() {
		ctx = tenant.WithUID(ctx, who.Space, who.Life)
	}
	return ctx, nil
}

type forServerKey struct{}

// isForServer reports whether a server asks, which is told what is shown to ask its own authorizer about it.
func isForServer(ctx context.Context) bool { return ctx.Value(forServerKey{}) != nil }

// Servers tells servers by their certificates: of an authority, and with one of some names, if there are some.
func Servers(ca x509request.VerifyOptionFunc, names []string) authenticator.Request {
	verified := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{}}, true, nil
	})
	return x509request.NewDynamicCAVerifier(ca, verified, headerrequest.StaticStringSlice(names))
}
