package authorization

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const specTimeout = time.Minute

var (
	tenantry *suite.Environment
	hook     *webhook
)

func TestAuthorization(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "Authorization")
}

// policies are the lines of the ABAC file.
const policies = `# who may do what
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "lineman", "namespace": "*", "resource": "configmaps", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"tenant": "a", "user": "alice", "namespace": "*", "resource": "configmaps", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"tenant": "*", "user": "everywhere", "readonly": true, "namespace": "*", "resource": "configmaps", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"tenant": "b", "space": "a", "user": "neighbour", "readonly": true, "namespace": "default", "resource": "*", "apiGroup": "*"}}
`

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	file := filepath.Join(dir, "policies.jsonl")
	Expect(os.WriteFile(file, []byte(policies), 0o600)).To(Succeed())
	hook = newWebhook(dir)
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		authorization := o.Server.Kube.Authorization
		authorization.Modes = []string{"Node", "ABAC", "RBAC", "Webhook"}
		authorization.PolicyFile = file
		authorization.WebhookConfigFile = hook.config
		authorization.WebhookVersion = "v1"
	})
	tenantry.CreateTenants(ctx, "a", "b")
}, NodeTimeout(suite.StartTimeout))

// who is a user of a tenant.
type who struct {
	tenant tenant.Name
	name   string
	groups []string
}

func (w who) config() *rest.Config {
	GinkgoHelper()
	return tenantry.User(w.tenant, w.name, w.groups...)
}

// in returns a client of the user for the space of n, by its space root.
func (w who) in(n tenant.Name) *kubernetes.Clientset {
	GinkgoHelper()
	if n == tenant.System {
		return suite.Client(tenantry.ShortPath(w.config()))
	}
	return suite.Client(tenantry.In(n, w.config()))
}

// send makes one request with a literal path and returns status and body.
func send(ctx context.Context, config *rest.Config, method, path, body string, headers ...string) (int, string) {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, method, tenantry.ShortPath(config).Host+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	response, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var buffer bytes.Buffer
	_, err = buffer.ReadFrom(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, buffer.String()
}

// encode returns obj in JSON.
func encode(obj any) string {
	GinkgoHelper()
	data, err := json.Marshal(obj)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(name string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, Volumes: volumes},
	}
}

func clusterRole(name string, annotations map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Rules: rules}
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{resource}, Verbs: verbs}
}

func bindingTo(role, userName string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role + "-" + userName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: userName}},
	}
}

// give gives a user a new ClusterRole in the space of client, until the spec ends.
func give(ctx context.Context, client kubernetes.Interface, role *rbacv1.ClusterRole, userName string) {
	GinkgoHelper()
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding, err := client.RbacV1().ClusterRoleBindings().Create(ctx, bindingTo(role.Name, userName), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(client.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
	})
}

// can asks in the space of client whether its user may do something.
func can(ctx context.Context, client kubernetes.Interface, attributes authorizationv1.ResourceAttributes) bool {
	GinkgoHelper()
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return review.Status.Allowed
}

var beForbidden = WithTransform(apierrors.IsForbidden, BeTrue())
