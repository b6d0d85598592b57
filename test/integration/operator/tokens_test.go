package operator

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// worker is a service account of a space that may write there.
type worker struct {
	administrator *kubernetes.Clientset
	secret        string
}

func newWorker(ctx context.Context, administrator *kubernetes.Clientset) worker {
	GinkgoHelper()
	w := worker{administrator: administrator, secret: "worker-token"}
	_, err := administrator.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = administrator.RbacV1().RoleBindings(metav1.NamespaceDefault).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "worker", Namespace: metav1.NamespaceDefault}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = administrator.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: w.secret, Annotations: map[string]string{corev1.ServiceAccountNameKey: "worker"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return w
}

// token asks a server for a token.
func (w worker) token(ctx context.Context, server *kubernetes.Clientset) string {
	GinkgoHelper()
	asked, err := server.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, "worker",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	lifetime := asked.Status.ExpirationTimestamp.Sub(asked.CreationTimestamp.Time)
	Expect(lifetime.Hours()).To(BeNumerically("<=", 1.01), "it is longer than spec.serviceAccounts.maxTokenLifetime")
	return asked.Status.Token
}

// ofSecret returns the token in a Secret of the account.
func (w worker) ofSecret(ctx context.Context) string {
	GinkgoHelper()
	var token string
	Eventually(func(g Gomega) {
		secret, err := w.administrator.CoreV1().Secrets(metav1.NamespaceDefault).Get(ctx, w.secret, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		token = string(secret.Data[corev1.ServiceAccountTokenKey])
		g.Expect(token).NotTo(BeEmpty())
	}).Should(Succeed())
	return token
}

// expect expects that the worker is let in, or becomes nobody.
func (w worker) expect(ctx context.Context, as *kubernetes.Clientset, in bool) {
	GinkgoHelper()
	list := func() error {
		_, err := as.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	}
	if in {
		Expect(list()).To(Succeed())
		return
	}
	Eventually(list).Should(Satisfy(apierrors.IsUnauthorized), "what was verified is remembered for ten seconds")
}

// publishedKeys returns by how many keys a server verifies tokens.
func publishedKeys(ctx context.Context, server *kubernetes.Clientset) (int, error) {
	raw, err := server.Discovery().RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var keys struct{ Keys []any }
	err = json.Unmarshal(raw, &keys)
	return len(keys.Keys), err
}

// keyOf is the identifier of the key that has signed a token.
func keyOf(token string) string {
	GinkgoHelper()
	parsed, err := jwt.ParseSigned(token)
	Expect(err).NotTo(HaveOccurred())
	return parsed.Headers[0].KeyID
}
