package identities

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Webhook reviews tokens.
type Webhook struct {
	server *httptest.Server

	mu     sync.Mutex
	users  map[string]authenticationv1.UserInfo
	broken map[string]string
	asked  map[string]int
}

// NewWebhook starts one that knows nobody.
func NewWebhook() *Webhook {
	w := &Webhook{users: map[string]authenticationv1.UserInfo{}, broken: map[string]string{}, asked: map[string]int{}}
	w.server = httptest.NewTLSServer(w)
	return w
}

// Close ends it.
func (w *Webhook) Close() { w.server.Close() }

// Know makes token one of a user.
func (w *Webhook) Know(token string, u authenticationv1.UserInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[token] = u
}

// Break makes body the answer about a token.
func (w *Webhook) Break(token, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[token] = body
}

// Asked returns how often a token was reviewed.
func (w *Webhook) Asked(token string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[token]
}

// Kubeconfig returns a file for --authentication-token-webhook-config-file.
func (w *Webhook) Kubeconfig() ([]byte, error) {
	config := api.NewConfig()
	config.Clusters["webhook"] = &api.Cluster{Server: w.server.URL, CertificateAuthorityData: encode(w.server.Certificate())}
	config.AuthInfos["server"] = &api.AuthInfo{}
	config.Contexts["webhook"] = &api.Context{Cluster: "webhook", AuthInfo: "server"}
	config.CurrentContext = "webhook"
	return clientcmd.Write(*config)
}

// ServeHTTP implements http.Handler.
func (w *Webhook) ServeHTTP(response http.ResponseWriter, req *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[review.Spec.Token]++
	if body, ok := w.broken[review.Spec.Token]; ok {
		response.Header().Set("Content-Type", "application/json")
		_, _ = response.Write([]byte(body))
		return
	}
	review.Status.User, review.Status.Authenticated = w.users[review.Spec.Token]
	review.Spec = authenticationv1.TokenReviewSpec{}
	respond(response, review)
}
