// What is shown of nvmm_axi_read, for the proof fv_read alone: inside of it, where the slots are
// seen, with the sizes of that proof. Half of the statements relate the slots to what the outside has
// seen; without them the solver does not find why the others are true.
module read_rules (
    input logic clk,
    input logic rst,
    input logic s_arvalid,
    input logic s_arready,
    input logic s_arid,
    input logic [2:0] s_araddr,
    input logic [7:0] s_arlen,
    input logic [2:0] s_arsize,
    input logic [1:0] s_arburst,
    input logic s_rvalid,
    input logic s_rready,
    input logic s_rid,
    input logic [7:0] s_rdata,
    input logic [1:0] s_rresp,
    input logic s_rlast,
    input logic req_valid,
    input logic req_pop,
    input logic [1:0] req_line,
    input logic req_slot,
    input logic pushed,
    input logic issued,
    input logic issued_slot,
    input logic line_valid,
    input logic [15:0] line,
    // Of the inside.
    input logic [1:0] used,
    input logic [1:0] full,
    input logic [1:0] bad,
    input logic [1:0] ids,
    input logic [3:0] waits_for,
    input logic active,
    input logic active_slot,
    input logic [7:0] beat,
    input logic offset,
    input logic next_slot,
    input logic line_slot,
    input logic [1:0] waiting
);
  // Where each slot's request is: in the queue, taken by a machine, or commanded; and the slots
  // whose lines the memory owes, oldest first.
  logic [1:0] queued, taken, owing, order, owed;
  always_ff @(posedge clk) begin
    if (pushed) queued[next_slot] <= 1'b1;
    if (req_pop) begin
      queued[req_slot] <= 1'b0;
      taken[req_slot] <= 1'b1;
    end
    if (issued) begin
      taken[issued_slot] <= 1'b0;
      owing[issued_slot] <= 1'b1;
      if (owed == 2'(line_valid)) order[0] <= issued_slot;
      else order[1] <= issued_slot;
    end
    if (line_valid) begin
      owing[order[0]] <= 1'b0;
      if (owed == 2'd2) order[0] <= order[1];
    end
    owed <= owed + 2'(issued) - 2'(line_valid);
    if (rst) begin
      queued <= '0;
      taken <= '0;
      owing <= '0;
      owed <= '0;
    end else begin
      // The memory commands what it has taken, and answers what it was commanded.
      if (req_pop) assume (req_valid);
      if (issued) assume (taken[issued_slot]);
      if (line_valid) assume (owed != 2'd0);
      for (int i = 0; i < 2; i++) begin
        assert (2'(queued[i]) + 2'(taken[i]) + 2'(owing[i]) == 2'(used[i] && !full[i]));
        assert (used[i] || !full[i]);
        assert (full[i] || !(used[i] && bad[i]));
      end
      assert (waiting == 2'(queued[0]) + 2'(queued[1]));
      assert (owed == 2'(owing[0]) + 2'(owing[1]));
      if (owed != 2'd0) assert (owing[order[0]] && line_slot == order[0]);
      if (owed == 2'd2) assert (order[0] != order[1]);
      if (req_valid) assert (queued[req_slot]);
      // Of two reads with one ID the younger one waits for the older.
      assert (!waits_for[0] && !waits_for[3] && !(waits_for[1] && waits_for[2]));
      assert ((waits_for[1] || waits_for[2]) == (used == 2'b11 && ids[0] == ids[1]));
      if (active) begin
        assert (full[active_slot] && waits_for[active_slot*2+:2] == '0);
      end
      // No slot is given out twice; no line comes to the wrong one.
      if (req_pop) assert (!taken[req_slot] && !owing[req_slot]);
      if (line_valid) assert (line_slot == order[0]);
    end
  end

  // Reads by ID.
  logic [3:0] under_way;
  logic ends;
  assign ends = s_rvalid && s_rready && s_rlast;
  always_ff @(posedge clk) begin
    for (int i = 0; i < 2; i++) begin
      under_way[i*2+:2] <= under_way[i*2+:2] + 2'(s_arvalid && s_arready && s_arid == 1'(i))
          - 2'(ends && s_rid == 1'(i));
    end
    if (rst) under_way <= '0;
    else begin
      for (int i = 0; i < 2; i++) begin
        assert (under_way[i*2+:2]
                == 2'(used[0] && ids[0] == 1'(i)) + 2'(used[1] && ids[1] == 1'(i)));
      end
      // No answer without a question.
      if (s_rvalid) assert (under_way[s_rid*2+:2] != 2'd0);
      // No deadlock: an address waits only while there are reads, and while there are, something
      // is offered to the memory or to the master, or the memory owes something. Each read passes
      // these stages once, so it is answered if memory and master take and give in the end.
      assert (s_arready || under_way != '0);
      assert (under_way == '0 || req_valid || taken != '0 || owed != '0 || s_rvalid);
    end
  end

  // One arbitrary read.
  (* anyseq *) logic watch;
  logic watched, w_slot, w_id, good;
  logic [2:0] w_addr, w_size;
  logic [1:0] w_burst, w_len, w_beat, ahead, mine;
  logic [15:0] w_line;  // What the memory gave.
  logic in_turn, at;
  // With a memory and a master that never wait there is a bound for the answer.
  (* anyconst *) logic prompt;
  logic [4:0] age;
  assign good = w_size == 3'd0 && w_burst != 2'b11 && (w_burst != 2'b00 || w_len == 2'd0)
                && (w_burst == 2'b10 ? w_len <= 2'd1 : {2'd0, w_addr[0]} + {1'b0, w_len} <= 3'd1);
  assign mine = under_way[s_arid*2+:2];
  assign in_turn = active && active_slot == w_slot;
  assign at = w_addr[0] ^ w_beat[0];
  always_ff @(posedge clk) begin
    if (s_arvalid && s_arready && watch && !watched) begin
      watched <= 1'b1;
      w_slot <= next_slot;
      {w_id, w_addr, w_burst, w_size} <= {s_arid, s_araddr, s_arburst, s_arsize};
      w_len <= s_arlen[1:0];
      ahead <= mine - 2'(ends && s_rid == s_arid);
      w_beat <= '0;
      age <= '0;
    end else if (watched && s_rvalid && s_rready && s_rid == w_id) begin
      if (ahead == 2'd0) w_beat <= w_beat + 2'd1;
      if (s_rlast) begin
        if (ahead == 2'd0) watched <= 1'b0;
        else ahead <= ahead - 2'd1;
      end
    end
    if (line_valid && watched && order[0] == w_slot) w_line <= line;
    if (watched) age <= age + 5'd1;
    if (!rst && prompt) begin
      assume (s_rready && (req_pop || !req_valid) && (issued || taken == '0));
      assume (line_valid || owed == '0);
      if (watched) assert (age < 5'd9);
    end
    if (rst) watched <= 1'b0;
    else if (watched) begin
      assert (used[w_slot] && ids[w_slot] == w_id && bad[w_slot] == !good);
      assert (ahead == 2'(waits_for[w_slot*2]) + 2'(waits_for[w_slot*2+1]));
      assert (in_turn ? beat == {6'd0, w_beat} : w_beat == 2'd0);
      assert (w_beat <= w_len);
      if (in_turn && good) assert (offset == at);
      // What the memory is asked for.
      if (req_pop && req_slot == w_slot) assert (good && req_line == w_addr[2:1]);
      // Its answer: error or data, and as many beats as it asked for.
      if (s_rvalid && s_rid == w_id && ahead == 2'd0) begin
        assert ((s_rresp == 2'b00) == good);
        assert (s_rlast == (w_beat == w_len));
        if (good) assert (s_rdata == w_line[at*8+:8]);
        cover (good && w_beat == 2'd1 && w_burst == 2'b10);
        cover (!good && s_rlast);
      end
    end
  end
endmodule
