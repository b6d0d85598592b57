package authentication

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/tenant"
)

// spaceIssuer returns the issuer of the service account tokens of a space. Each space has
// its own, because names of service accounts are the same in every space: relying parties
// that trust the issuer of one space must not accept accounts of another. It is a URL below
// the space's root, where the space serves its discovery document.
func spaceIssuer(issuer string, n tenant.Name) string {
	return strings.TrimSuffix(issuer, "/") + n.Root()
}

// Issuer is the configuration of the discovery documents of service account tokens.
type Issuer struct {
	// URL is the issuer of the system space. JWKSURI is where its keys are, by default
	// at Address, the host and port by which clients reach the server.
	URL, JWKSURI, Address string
	Keys                  serviceaccount.PublicKeysGetter
}

// WithSpaceIssuers serves the discovery documents of spaces
// (/.well-known/openid-configuration), which name the space's own issuer.
func WithSpaceIssuers(handler http.Handler, issuer Issuer) http.Handler {
	provider, err := serviceaccount.NewOpenIDMetadataProvider(issuer.URL, issuer.JWKSURI, issuer.Address, issuer.Keys)
	if err != nil { // upstream does the same, and logs the reason
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != serviceaccount.OpenIDConfigPath || req.Method != http.MethodGet {
			handler.ServeHTTP(w, req)
			return
		}
		n, err := tenant.SpaceFrom(req.Context())
		if err != nil || !n.IsSpace() {
			handler.ServeHTTP(w, req)
			return
		}
		system, maxAge := provider.GetConfigJSON()
		document, err := issuer.document(system, n)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", maxAge))
		if _, err := w.Write(document); err != nil {
			klog.V(4).InfoS("Writing a discovery document", "tenant", n, "err", err)
		}
	})
}

// document turns the discovery document of the system space into that of n. The keys are
// the same, and served in the space unless JWKSURI names another place.
func (i Issuer) document(system []byte, n tenant.Name) ([]byte, error) {
	var document map[string]any
	if err := json.Unmarshal(system, &document); err != nil {
		return nil, fmt.Errorf("reading a discovery document: %w", err)
	}
	document["issuer"] = spaceIssuer(i.URL, n)
	if i.JWKSURI == "" {
		keys := url.URL{Scheme: "https", Host: i.Address, Path: n.Root() + serviceaccount.JWKSPath}
		document["jwks_uri"] = keys.String()
	}
	return json.Marshal(document)
}
