package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	managerConfiguration = `
apiVersion: config.tenantry.io/v1alpha1
kind: ManagerConfiguration
defaultQuota: {pods: 7}
publishable: [deployments.apps]
`
	admissionConfiguration = `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: SpacePolicy
  configuration:
    apiVersion: config.tenantry.io/v1alpha1
    kind: SpacePolicyConfiguration
    nodePlacement: {mode: Limited, allowedLabels: [zone]}
`
)

// newTenant creates a tenant and returns a client of its administrator once its
// space is ready.
func newTenant(ctx context.Context, dir, name string) *kubernetes.Clientset {
	GinkgoHelper()
	Expect(client(dir).CoreV1().RESTClient().Post().AbsPath("/api/v1/tenants").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "` + name + `"}}`)).Do(ctx).Error()).To(Succeed())
	kubeconfig, err := exec.CommandContext(ctx, binary, "kubeconfig", name, "--dir", dir).Output()
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	member, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := member.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	}, startTimeout).Should(Succeed())
	return member
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

var _ = Describe("tenantry up, configured", func() {
	It("has the default quota, the publishable resources and the placement of the files", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		write := func(name, content string) string {
			path := filepath.Join(dir, name)
			Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
			return path
		}
		state := filepath.Join(dir, "state")
		session := run("up", "--dir", state, "--secure-port", sessions.FreePort(), "--manager-config", write("manager.yaml", managerConfiguration),
			"--admission-control-config-file", write("admission.yaml", admissionConfiguration))
		Eventually(session.Out, startTimeout).Should(gbytes.Say("Tenantry is ready"))
		system, member := client(state), newTenant(ctx, state, "acme")

		By("the default quota")
		Eventually(func() (int64, error) {
			quota, err := member.CoreV1().ResourceQuotas("default").Get(ctx, "tenant-quota", metav1.GetOptions{})
			return quota.Status.Hard.Pods().Value(), err
		}, startTimeout).Should(BeEquivalentTo(7))

		By("the placement of pods")
		chosen := deployment("chosen", 0)
		chosen.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "x"}
		_, err := member.AppsV1().Deployments("default").Create(ctx, chosen, metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("node placement is Limited to labels [zone]")))

		By("a published Deployment, which runs, and which the tenant does not scale")
		original := deployment("agent", 2)
		original.Annotations = map[string]string{tenant.PublishedAnnotation: "true"}
		_, err = system.AppsV1().Deployments("default").Create(ctx, original, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		deployments := member.AppsV1().Deployments("default")
		Eventually(func() (int32, error) {
			d, err := deployments.Get(ctx, "agent", metav1.GetOptions{})
			return d.Status.UpdatedReplicas, err
		}, startTimeout).Should(BeEquivalentTo(2))
		scale, err := deployments.GetScale(ctx, "agent", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		// In any state: its controllers write the status of the Deployment meanwhile.
		scale.Spec.Replicas, scale.ResourceVersion = 5, ""
		_, err = deployments.UpdateScale(ctx, "agent", scale, metav1.UpdateOptions{})
		Expect(err).To(And(MatchError(apierrors.IsForbidden, "forbidden"), MatchError(ContainSubstring("that the platform publishes"))))

		Eventually(session.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	}, SpecTimeout(2*startTimeout))

	It("says what is wrong with a file", func() {
		dir := GinkgoT().TempDir()
		path := filepath.Join(dir, "manager.yaml")
		Expect(os.WriteFile(path, []byte("kind: Unknown\n"), 0o600)).To(Succeed())
		session := run("up", "--dir", filepath.Join(dir, "state"), "--secure-port", sessions.FreePort(), "--manager-config", path)
		Eventually(session, stopTimeout).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say("manager.yaml"))
	})
})
