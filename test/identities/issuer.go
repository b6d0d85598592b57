package identities

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
)

// SigningAlgorithm is what an Issuer signs with.
const SigningAlgorithm = string(jose.ES256)

// Issuer is an OpenID issuer.
type Issuer struct {
	server *httptest.Server
	signer jose.Signer
}

// NewIssuer starts one.
func NewIssuer() (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of an issuer: %w", err)
	}
	i := &Issuer{}
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "key"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a signer: %w", err)
	}
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "key", Algorithm: SigningAlgorithm, Use: "sig"}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{
			"issuer": i.URL(), "jwks_uri": i.URL() + "/keys",
			"response_types_supported": []string{"id_token"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{SigningAlgorithm},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) { respond(w, keys) })
	i.server = httptest.NewTLSServer(mux)
	return i, nil
}

// Close ends it.
func (i *Issuer) Close() { i.server.Close() }

// URL is the name of the issuer.
func (i *Issuer) URL() string { return i.server.URL }

// PEM returns the certificate to verify it by.
func (i *Issuer) PEM() []byte { return encode(i.server.Certificate()) }

// Token signs claims, to which it adds the issuer and an hour of validity where
// they do not say otherwise.
func (i *Issuer) Token(claims map[string]any) (string, error) {
	all := map[string]any{"iss": i.URL(), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	payload, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("encoding claims: %w", err)
	}
	return i.Sign(payload)
}

// Sign signs whatever it is given.
func (i *Issuer) Sign(payload []byte) (string, error) {
	signed, err := i.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	return signed.CompactSerialize()
}

func respond(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client notices what is missing
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
