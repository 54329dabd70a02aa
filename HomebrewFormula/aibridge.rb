# brew tap aibridge/aibridge https://github.com/aibridge/aibridge
# brew install --HEAD aibridge && brew services start aibridge
class Aibridge < Formula
  desc "Bridge between devices, skills and language models"
  homepage "https://github.com/aibridge/aibridge"
  license "Apache-2.0"
  head "https://github.com/aibridge/aibridge.git", branch: "main"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    tag = build.head? ? Utils.git_short_head : "v#{version}"
    system "go", "build", *std_go_args(ldflags: "-s -w -X main.version=#{tag}"), "./cmd/aibridge"
    generate_completions_from_executable(bin/"aibridge", "completion")
  end

  # It listens on loopback; the first start puts an administrator's key into
  # var/aibridge/admin.key.
  service do
    run [opt_bin/"aibridge", "serve", "--data", var/"aibridge"]
    keep_alive successful_exit: false
    log_path var/"log/aibridge.log"
    error_log_path var/"log/aibridge.log"
  end

  test do
    assert_match "protocol", shell_output("#{bin}/aibridge version")
  end
end
