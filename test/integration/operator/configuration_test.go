package operator

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	authenticationInline = `{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, jwt: [{issuer: {url: "https://id.example.com", audiences: [tenantry]},
		claimMappings: {username: {claim: email, prefix: ""}, extra: [{key: tenantry.io/tenant, valueExpression: claims.org}]}}]}`
	authorizationInline = `{apiVersion: apiserver.config.k8s.io/v1, kind: AuthorizationConfiguration, authorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}]}`
	auditInline         = `{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}`
	auditFile           = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"
	admissionInline     = `{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: SpacePolicy, configuration: {
		apiVersion: config.tenantry.io/v1alpha1, kind: SpacePolicyConfiguration, daemonSets: {mode: Inert}}}]}`
	managerInline = `{apiVersion: config.tenantry.io/v1alpha1, kind: ManagerConfiguration, defaultQuota: {pods: 7}, publishable: [configmaps]}`

	configuredSpec = `{authentication: {configuration: {inline: ` + authenticationInline + `}, systemIssuers: ["https://id.example.com"]},
		authorization: {configuration: {inline: ` + authorizationInline + `}}, audit: {policy: {inline: ` + auditInline + `}},
		admission: {configuration: {inline: ` + admissionInline + `}}, manager: {configuration: {inline: ` + managerInline + `}},
		limits: {rateLimit: {requestsPerSecond: 500, burst: 900, inFlight: 90, watches: 400}, requestLimit: {bodyBytes: 1048576, listObjects: 5000},
			tenantWatchBytes: 33554432, watchCacheHistoryBytes: 1000000},
		tenantLimits: {daemonSets: {mode: Refused}, rateLimit: {requestsPerSecond: 1000}, quota: {pods: 100}}}`
)

// configuredArgs are the flags by which servers are configured as configuredSpec says.
var configuredArgs = []string{
	"--authentication-config=/etc/tenantry/configuration/authentication/authentication.yaml",
	"--authorization-config=/etc/tenantry/configuration/authorization/authorization.yaml",
	"--audit-policy-file=/etc/tenantry/configuration/audit/audit.yaml", "--audit-log-path=-",
	"--admission-control-config-file=/etc/tenantry/configuration/admission/admission.yaml",
	"--host-tenant-limits-config=/etc/tenantry/configuration/tenant-limits/tenant-limits.yaml",
	"--system-issuers=https://id.example.com",
	"--tenant-requests-per-second=500", "--tenant-requests-burst=900", "--tenant-requests-inflight=90", "--tenant-watches=400",
	"--tenant-body-bytes=1048576", "--tenant-list-objects=5000", "--tenant-watch-bytes=33554432", "--watch-cache-history-bytes=1000000",
}

// given returns a ConfigMap of a ControlPlane.
func given(cp, name string, data map[string]string) *corev1.ConfigMap {
	object := named(&corev1.ConfigMap{Data: data}, name)
	object.Labels = map[string]string{"tenantry.io/control-plane": cp}
	return object
}

// createFor creates an object until the end of the spec.
func createFor(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed()) })
}

var _ = Describe("The configuration of a ControlPlane", func() {
	It("is read by its one server", func(ctx SpecContext) {
		cp := newFrom(parse("configured", configuredSpec))
		createAvailable(ctx, cp)
		container := get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec.Containers[0]
		for _, arg := range append(configuredArgs, "--manager-config=/etc/tenantry/configuration/manager/manager.yaml") {
			Expect(container.Args).To(ContainElement(arg))
		}
	})

	It("is read by several servers, and their managers", func(ctx SpecContext) {
		cp := newFrom(parse("configured-several", configuredSpec))
		cp.Spec.Storage = newOnEtcd(cp.Name).Spec.Storage
		createAvailable(ctx, cp)
		servers := get(ctx, &appsv1.Deployment{}, cp.Name).Spec.Template
		for _, arg := range append(configuredArgs, "--publishable-resources=configmaps") {
			Expect(servers.Spec.Containers[0].Args).To(ContainElement(arg))
		}
		Expect(servers.Annotations).To(HaveKey("tenantry.io/configuration"))
		managers := get(ctx, &appsv1.Deployment{}, cp.Name+"-manager").Spec.Template
		Expect(managers.Spec.Containers[0].Args).To(ContainElement("--config=/etc/tenantry/configuration/manager/manager.yaml"))
		Expect(managers.Annotations).To(HaveKey("tenantry.io/configuration"))
	})

	It("makes new servers if they read it once, and none if they read it again", func(ctx SpecContext) {
		cp := newFrom(parse("reloaded", configuredSpec))
		createAvailable(ctx, cp)
		before := get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation
		changeInline := func(source func(*v1alpha1.ControlPlaneSpec) *v1alpha1.ConfigurationSource, key, to string) {
			change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) {
				inline := source(&cp.Spec).Inline
				inline.Raw = []byte(replaced(string(inline.Raw), key, to))
			})
			Eventually(func() string { return string(secret(ctx, "reloaded-configuration").Data[key]) }).Should(ContainSubstring(to))
		}
		changeInline(func(s *v1alpha1.ControlPlaneSpec) *v1alpha1.ConfigurationSource {
			return &s.Authentication.Configuration
		},
			"authentication.authentication.yaml", "https://other.example.com")
		Consistently(func() int64 { return get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation }).Should(Equal(before))
		changeInline(func(s *v1alpha1.ControlPlaneSpec) *v1alpha1.ConfigurationSource { return &s.Audit.Policy }, "audit.audit.yaml", "RequestResponse")
		Eventually(func() int64 { return get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation }).Should(Equal(before + 1))
	})

	It("is as it was before while its ConfigMap is wrong or gone", func(ctx SpecContext) {
		cp := newFrom(parse("mended", `{audit: {policy: {configMapName: rules}}}`))
		rules := given(cp.Name, "rules", map[string]string{"audit.yaml": auditFile})
		createFor(ctx, rules)
		createAvailable(ctx, cp)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		before := get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation
		for _, wrong := range []string{"", "a: [", strings.Replace(auditFile, "Metadata", "Everything", 1), strings.Replace(auditFile, "rules", "rulez", 1)} {
			change(ctx, rules, rules.Name, func(m *corev1.ConfigMap) { m.Data["audit.yaml"] = wrong })
			condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonConfigurationInvalid)
			Expect(condition.Message).To(SatisfyAll(ContainSubstring(`spec.audit.policy.configMapName: ConfigMap "rules": audit.yaml`), ContainSubstring("servers go on with what they had")))
		}
		Expect(admin.Delete(ctx, rules)).To(Succeed())
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonConfigurationMissing)
		Expect(condition.Message).To(ContainSubstring("create it with the key audit.yaml, or label it"))
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		Expect(secret(ctx, "mended-configuration").Data).To(HaveKeyWithValue("audit.audit.yaml", []byte(auditFile)))
		Expect(get(ctx, &appsv1.StatefulSet{}, cp.Name).Generation).To(Equal(before))

		createFor(ctx, given(cp.Name, "rules", map[string]string{"audit.yaml": auditFile}))
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	})

	It("keeps servers from being made that would run without it", func(ctx SpecContext) {
		cp := newFrom(parse("unaudited", `{audit: {policy: {configMapName: rules-to-come}}}`))
		create(ctx, cp)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonConfigurationMissing)
		err := admin.Get(ctx, client.ObjectKeyFromObject(cp), &appsv1.StatefulSet{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	It("is in no Secret that is not the ControlPlane's", func(ctx SpecContext) {
		for name, labels := range map[string]map[string]string{
			"unlabelled": nil,
			"another's":  {"tenantry.io/control-plane": "other"},
			"own keys":   {"tenantry.io/control-plane": "curious", "app.kubernetes.io/managed-by": "tenantry-operator"},
		} {
			By(name)
			secret := named(&corev1.Secret{StringData: map[string]string{"audit.yaml": auditInline, "password": "secret"}}, "others")
			secret.Labels = labels
			createFor(ctx, secret)
			cp := newFrom(parse("curious", `{audit: {policy: {secretName: others}}}`))
			create(ctx, cp)
			condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonConfigurationMissing)
			Expect(condition.Message).To(ContainSubstring(`spec.audit.policy.secretName: there is no Secret "others" with the label tenantry.io/control-plane=curious`))
			Expect(admin.Delete(ctx, cp)).To(Succeed())
			for _, object := range made(cp) {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
			}
			Expect(admin.Delete(ctx, secret)).To(Succeed())
		}
	})

	It("places pods, has them call others by a proxy, and says where webhooks of tenants may be", func(ctx SpecContext) {
		cp := newFrom(parse("placed", `{storage: {etcd: {endpoints: ["https://etcd.example.com:2379"], secretName: placed-login}},
			tenantWebhooks: {deniedCIDRs: [fd00::/8, 10.0.0.0/8], allowedCIDRs: [10.20.0.0/16]},
			pod: {nodeSelector: {pool: platform}, tolerations: [{key: platform, operator: Exists, effect: NoSchedule}], priorityClassName: platform,
			affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [fast]}]}]}}},
			imagePullSecrets: [{name: registry}], managerResources: {limits: {memory: 2Gi}},
			proxy: {url: "http://proxy.example.com:3128", noProxy: [.example.org]}}}`))
		createAvailable(ctx, cp)
		address := get(ctx, &corev1.Service{}, cp.Name).Spec.ClusterIP
		for _, name := range []string{cp.Name, cp.Name + "-manager"} {
			pod := get(ctx, &appsv1.Deployment{}, name).Spec.Template.Spec
			Expect(pod.NodeSelector).To(Equal(map[string]string{"pool": "platform"}))
			Expect(pod.Tolerations).To(Equal([]corev1.Toleration{{Key: "platform", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}))
			Expect(pod.PriorityClassName).To(Equal("platform"))
			Expect(pod.Affinity).To(Equal(cp.Spec.Pod.Affinity))
			Expect(pod.ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: "registry"}}))
			Expect(pod.Containers[0].Env).To(Equal([]corev1.EnvVar{
				{Name: "HTTPS_PROXY", Value: "http://proxy.example.com:3128"}, {Name: "HTTP_PROXY", Value: "http://proxy.example.com:3128"},
				{Name: "NO_PROXY", Value: ".example.org," + address + ",127.0.0.0/8,::1,etcd.example.com,localhost,placed.tenantry-system.svc"},
			}))
		}
		Expect(get(ctx, &appsv1.Deployment{}, cp.Name).Spec.Template.Spec.Containers[0].Args).To(ContainElements(
			"--tenant-webhook-denied-cidrs=10.0.0.0/8,fd00::/8", "--tenant-webhook-allowed-cidrs=10.20.0.0/16"))
		Expect(get(ctx, &appsv1.Deployment{}, "placed-manager").Spec.Template.Spec.Containers[0].Resources.Limits.Memory().String()).To(Equal("2Gi"))
	})
})

var _ = Describe("A Tenant of the host", func() {
	It("asks for no more than its ControlPlane lets it have", func(ctx SpecContext) {
		s := createServed(ctx, "bounded")
		t := newTenant("greedy")
		t.Spec.ControlPlaneRef = s.ref()
		t.Spec.NodePlacement = &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementEnabled}
		createTenant(ctx, t)
		condition := expectOfTenant(ctx, t.Name, v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
		Expect(condition.Message).To(ContainSubstring("let the platform raise spec.tenantLimits.nodePlacement of the ControlPlane"))
		Expect(expectOfTenant(ctx, t.Name, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalid).Message).To(Equal(condition.Message))
		changeTenant(ctx, admin, t.Name, func(t *v1alpha1.Tenant) { t.Spec.NodePlacement = nil })
		expectReady(ctx, t.Name)

		changeTenant(ctx, admin, t.Name, func(t *v1alpha1.Tenant) {
			t.Spec.NodePlacement = &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementEnabled}
		})
		expectOfTenant(ctx, t.Name, v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonInvalid)
		Expect(s.mirror(ctx, t.Name).Spec.NodePlacement).To(BeNil())
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
		Expect(meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "its space is as it was")
	}, NodeTimeout(specTimeout))
})

// replaced is a configuration, of a key in the copy, with another issuer or level.
func replaced(content, key, to string) string {
	GinkgoHelper()
	fields := map[string]any{}
	Expect(json.Unmarshal([]byte(content), &fields)).To(Succeed())
	if key == "audit.audit.yaml" {
		fields["rules"].([]any)[0].(map[string]any)["level"] = to
	} else {
		fields["jwt"].([]any)[0].(map[string]any)["issuer"].(map[string]any)["url"] = to
	}
	changed, err := json.Marshal(fields)
	Expect(err).NotTo(HaveOccurred())
	return string(changed)
}

var _ = Describe("A configured server, run as its StatefulSet says", Ordered, func() {
	var node kubelet
	BeforeAll(func() {
		node.binary = sessions.Tenantry()
		node.root = GinkgoT().TempDir()
		DeferCleanup(node.end)
	})
	// run starts the server of a ControlPlane.
	run := func(ctx context.Context, cp *v1alpha1.ControlPlane) *pod {
		GinkgoHelper()
		return node.start(ctx, cp.Name, get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec)
	}

	It("does as it has been told", func(ctx SpecContext) {
		cp := newFrom(parse("told", configuredSpec))
		create(ctx, cp)
		server := run(ctx, cp)
		config := adminConfig(ctx, cp.Name)
		config.ServerName, config.Host = "told.tenantry-system.svc", "https://"+loopback+":"+server.port
		var system client.Client
		Eventually(func() (err error) {
			if server.ExitCode() >= 0 {
				return StopTrying("the server has ended")
			}
			system, err = client.New(config, client.Options{Scheme: admin.Scheme()})
			return err
		}).WithTimeout(startTimeout).Should(Succeed())
		acme := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
		Eventually(func() error { return system.Create(ctx, acme) }).WithTimeout(startTimeout).Should(Succeed())
		space := rest.CopyConfig(config)
		space.Host += tenant.Name("acme").Root()
		quotas := kubernetes.NewForConfigOrDie(space).CoreV1().ResourceQuotas(metav1.NamespaceDefault)
		Eventually(func(g Gomega) {
			quota, err := quotas.Get(ctx, v1alpha1.TenantQuota, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(quota.Spec.Hard.Pods().String()).To(Equal("7"), "not the quota of the manager's configuration")
		}).WithTimeout(startTimeout).Should(Succeed())
		Eventually(server.Out).Should(gbytes.Say(`"kind":"Event","apiVersion":"audit.k8s.io/v1".*"tenantry.io/tenant":"acme"`))

		By("holding the host to its limits")
		operator := rest.CopyConfig(config)
		authorities := secret(ctx, "told-authorities").Data
		authority, err := pki.ParseAuthority("system-ca", authorities["system-ca.crt"], authorities["system-ca.key"])
		Expect(err).NotTo(HaveOccurred())
		operator.CertData, operator.KeyData, err = (&pki.PKI{ClientCA: authority}).ClientCertificate(0, tenant.System, "tenantry-operator", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		asHost, err := client.New(operator, client.Options{Scheme: admin.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		globex := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "globex"}}
		globex.Spec.NodePlacement = &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementEnabled}
		err = asHost.Create(ctx, globex.DeepCopy())
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err.Error()).To(ContainSubstring("spec.nodePlacement: Forbidden: Tenants of this host may have mode Disabled at most: ask for less"))
		Expect(system.Create(ctx, globex)).To(Succeed(), "an administrator of the control plane")
	}, NodeTimeout(specTimeout))

	It("says what is wrong that nobody else can know, which the status shows", func(ctx SpecContext) {
		cp := newFrom(parse("misled", `{admission: {configuration: {inline: {apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration,
			plugins: [{name: ResourceQuota, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: 7}]}}]}}}}`))
		create(ctx, cp)
		server := run(ctx, cp)
		Eventually(server.Session, startTimeout).Should(gexec.Exit(1))
		said := string(server.Err.Contents())
		Expect(said).To(ContainSubstring("limitedResources"))

		failedPod(ctx, "misled-0", get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template, said)
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonPodFailing)
		Expect(condition.Message).To(ContainSubstring("limitedResources"))
	}, NodeTimeout(specTimeout))

	It("has no files but those that are mounted", func(ctx SpecContext) {
		cp := newFrom(parse("mounting", `{authorization: {configuration: {configMapName: webhook}}}`))
		createFor(ctx, given(cp.Name, "webhook", map[string]string{
			"authorization.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]", "beside": "x",
		}))
		create(ctx, cp)
		p := &pod{root: filepath.Join(node.root, "mounting"), spec: get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec}
		p.mount(ctx)
		var files []string
		root := filepath.Join(p.root, "etc/tenantry/configuration")
		Expect(filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				files = append(files, path[len(root):])
			}
			return err
		})).To(Succeed())
		Expect(files).To(ConsistOf("/authorization/authorization.yaml", "/authorization/beside", "/tenant-limits/tenant-limits.yaml"))
	})
})
